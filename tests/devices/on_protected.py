"""What is run on the device of ``examples/device_protected``: ``on_protected.py SITE CASE``.

The package lies in the folder SITE. A process has one such device, so each case has its own.
"""

from __future__ import annotations

import copy
import ctypes
import dataclasses
import importlib
import re
import sys
from contextlib import nullcontext
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._pytree import tree_leaves, tree_map_only

import wrapper_ir as wir
from tests.frontends.no_gpu import pretended_gpu
from tests.models.harness import loss
from tests.models.zoo import CASES, TRAINING
from wrapper_ir import devices
from wrapper_ir.frontends.inductor import install
from wrapper_ir.lines import CppKernel, KernelDefinition, TritonKernel
from wrapper_ir.planning import plan
from wrapper_ir.testing import assert_equivalent, example_inputs
from wrapper_ir.toolchain.triton import TritonSource, jit_function


def model(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4))


def to(value: Any, device: str) -> Any:
    return value.to(device) if isinstance(value, torch.Tensor) else value


def same(first: Any, second: Any) -> bool:
    pairs = ((to(a, "cpu"), to(b, "cpu")) for a, b in zip(first, second, strict=True))
    return all(torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b for a, b in pairs)


def moved(program: wir.Program) -> wir.Program:
    """The same program on the CPU: its kernels, its plan, its constants."""
    data = {name: to(value, "cpu") for name, value in program.data.items()}
    return wir.parse(str(program).replace("@protected:0", "@cpu")).replace(data=data)


def is_same_on_the_cpu(program: wir.Program, target: str = "python") -> bool:
    inputs = example_inputs(moved(program))
    torch.manual_seed(0)
    here = wir.compile(program, target)(*(to(value, "protected") for value in inputs))
    torch.manual_seed(0)
    return same(here, wir.compile(moved(program))(*inputs))


def kernels(program: wir.Program) -> int:
    return sum(isinstance(each.source, CppKernel) for each in program.kernels.values())


def captured(device: str = "protected") -> wir.Program:
    size = torch.export.Dim("n", min=1, max=64)
    x = torch.randn(3, 8).to(device)
    return wir.capture(model().to(device), (x,), dynamic_shapes=({0: size},))


def schedule(scheduling: str) -> None:
    kind = devices.kind_of("protected")
    devices.register_device(dataclasses.replace(kind, scheduling=scheduling), over=kind)


def forward() -> None:
    program = captured()
    assert kernels(program) > 0
    assert is_same_on_the_cpu(program)
    assert is_same_on_the_cpu(wir.plan_memory(program, "pool"))
    assert is_same_on_the_cpu(program, "cpp")
    for strategy in ("reuse", "pool"):
        assert_equivalent(wir.plan_memory(program, strategy), targets=["python", "cpp"])
    only = re.escape("called only from emitted Python and C++")
    with pytest.raises(wir.WrapperIRError, match=only):
        wir.emit(program, "fx")


def package() -> None:
    """A package that our loader takes, and torch's, which the vendor has told of the device."""
    program = captured()
    file = wir.export(program, sys.argv[3])
    x = torch.randn(5, 8)
    wanted = wir.compile(moved(program))(x)
    ours, torchs = wir.load_package(file), torch._inductor.aoti_load_package(str(file))
    for call in (ours, torchs):
        assert same([call(x.to("protected"))], wanted)
        with pytest.raises(RuntimeError, match=re.escape("protected:0, got float32[5, 8]")):
            call(x)
    names = {name: each.qualified_name for name, each in program.constants.items()}
    values = {name: torch.randn(program.data[name].shape) for name in names}
    given = {names[name]: value.to("protected") for name, value in values.items()}
    ours.load_constants(given, check_full_update=True)
    wanted = wir.compile(moved(program).replace(data=values))(x)
    assert same([ours(x.to("protected"))], wanted)
    with pytest.raises(wir.WrapperIRError, match="it runs on protected, and not on cpu"):
        wir.load_package(file, device="cpu")


def library() -> None:
    """A library alone, whose constants are in it or beside it; another process loads it."""
    program, x = captured(), torch.randn(5, 8)
    for name, options in (("in", {}), ("beside", {"constants": "beside"})):
        wir.export(program, f"{sys.argv[3]}/{name}.so", **options)
    torch.save((x, *wir.compile(moved(program))(x)), f"{sys.argv[3]}/pair.pt")


def loaded() -> None:
    """What ``library`` has written, in a process that compiled nothing."""
    x, wanted = torch.load(f"{sys.argv[3]}/pair.pt")
    there = x.to("protected")
    for name in ("in", "beside"):
        call = wir.load_package(f"{sys.argv[3]}/{name}.so")
        assert same([call(there)], [wanted])
        with pytest.raises(RuntimeError, match=re.escape("protected:0, got float32[5, 8]")):
            call(x)
    wrong = wir.load_package(f"{sys.argv[3]}/in.so", weights=model(1).to("protected").state_dict())
    assert not same([wrong(there)], [wanted])
    wrong.load_constants(model().to("protected").state_dict(), check_full_update=True)
    assert same([wrong(there)], [wanted])
    with pytest.raises(RuntimeError, match="made for 'protected:0', not for 'cpu'"):
        wir.load_package(f"{sys.argv[3]}/in.so", device="cpu")


def folder() -> None:
    """Folders of source, in Python and in C++."""
    program, x = captured(), torch.randn(5, 8)
    wanted = wir.compile(moved(program))(x)
    sys.path.insert(0, sys.argv[3])
    for target in ("python", "cpp"):
        folder = wir.export(program, f"{sys.argv[3]}/in_{target}/", target)
        assert same(importlib.import_module(f"in_{target}").run(x.to("protected")), wanted)
        assert wir.check_folder(folder) == []
    torch.save(x, f"{sys.argv[3]}/x.pt")
    torch.save(wanted[0], f"{sys.argv[3]}/wanted.pt")


def zoo() -> None:
    """Models of the zoo: each program does what it does on the CPU, and holds no more memory."""
    emitter, names = sys.argv[3], sys.argv[4:]
    torch.set_num_threads(1)  # atomic additions of several come in any order
    for case in (case for case in CASES if case.name in names):
        trains = case in TRAINING
        host, args = case.make()
        there = copy.deepcopy(host.train(trains)).to("protected")
        found = []
        for module, device in ((host, "cpu"), (there, "protected")):
            torch._dynamo.reset()
            torch.manual_seed(case.seed)
            run = torch.compile(module, backend="wrapper_ir", options={"emitter": emitter})
            with wir.record() as programs, torch.set_grad_enabled(trains):
                found.append(results_and_gradients(module, run, copies(args, device)))
        for one, other in zip(*found, strict=True):
            torch.testing.assert_close(to(other, "cpu"), one)
        for program in programs:
            assert is_same_on_the_cpu(program, emitter), case.name
            peaks = [plan(each, "pool").report.peak_bytes for each in (program, moved(program))]
            assert peaks[0] <= peaks[1]
        assert len(programs) == (2 if trains else 1) or case.name == "graph_breaks"
        print(case.name, flush=True)


def copies(args: Any, device: str) -> Any:
    return tree_map_only(torch.Tensor, lambda value: value.clone().to(device), args)


def results_and_gradients(module: nn.Module, call: Any, args: Any) -> list[Any]:
    results = call(*args)
    gradients = []
    if module.training:
        loss(copies(results, "cpu")).backward()
        gradients = [parameter.grad for parameter in module.parameters()]
    return [*tree_leaves(results), *gradients]


def training(emitter: str = "python", *, installed: bool = False) -> None:
    host = model()
    there = copy.deepcopy(host).to("protected")
    ours = {"backend": "wrapper_ir", "options": {"emitter": emitter}}
    with wir.record() as programs, install(emitter) if installed else nullcontext():
        run = torch.compile(there, dynamic=True, **({} if installed else ours))
        for module, call, device in ((host, host, "cpu"), (there, run, "protected")):
            optimizer = torch.optim.SGD(module.parameters(), 0.1)
            torch.manual_seed(1)
            for size in (5, 6):
                optimizer.zero_grad()
                nn.functional.dropout(call(torch.randn(size, 8).to(device)).cpu()).sum().backward()
                optimizer.step()
    forward_, backward = programs  # one of each: the size is a symbol
    assert is_same_on_the_cpu(forward_, emitter)
    assert is_same_on_the_cpu(backward, emitter)
    for wanted, got in zip(host.parameters(), there.parameters(), strict=True):
        torch.testing.assert_close(got.cpu(), wanted)


def training_in_cpp() -> None:
    training("cpp")


def installed() -> None:
    """What trains under an installation."""
    training(installed=True)


def entry_points() -> None:
    """Ways into Inductor other than ``torch.compile``, under an installation."""
    there, x = model().to("protected"), torch.randn(3, 8).to("protected")
    wanted = wir.compile(captured())(x)
    exported = torch.export.export(there, (x,))
    file = f"{sys.argv[3]}/m.pt2"
    graphs: list[Any] = []
    torch.compile(there, backend=lambda gm, inputs: graphs.append((gm, inputs)) or gm.forward)(x)
    ((graph, inputs),) = graphs
    with install(), torch.no_grad(), wir.record() as programs:
        torch._inductor.aoti_compile_and_package(exported, package_path=file)
        results = [
            (torch._inductor.aoti_load_package(file)(x),),
            torch._inductor.compile(graph, inputs)(*inputs),
            torch._inductor.standalone_compile(graph, inputs)(*inputs),
        ]
        if hasattr(torch.compiler.precompile, "capture"):
            names = {"artifact_path": f"{file}.py", "cache_path": f"{file}.cache"}
            with torch.compiler.precompile.capture(lambda m, x: m(x), **names) as run:
                results.append((run(there, x),))
        # A graph that says only in its inside which device it is on.
        count = torch.compile(lambda: torch.ones(7, 5, device="protected").cumsum(0).sum().item())
        assert count() == 5 * sum(range(8))
    assert all(same(each, wanted) for each in results)
    assert len(programs) == len(results) + 1
    assert all(is_same_on_the_cpu(each) for each in programs[:-1])


def fault() -> None:
    x = torch.ones(4).to("protected")
    assert x.cpu().tolist() == [1] * 4
    print("copied", flush=True)
    ctypes.string_at(x.data_ptr(), 4)


def forgotten() -> None:
    kind = devices.kind_of("protected")
    plain = dataclasses.replace(kind, cpp=devices.CppSide())
    devices.register_device(plain, over=kind)
    call = wir.compile(captured(), sys.argv[3])
    print("compiled", flush=True)
    call(torch.ones(3, 8).to("protected"))


def ops() -> None:
    """A device without kernels: the ops of the library alone."""
    schedule("ops")
    program = captured()
    assert kernels(program) == 0
    assert sum(isinstance(line, KernelDefinition) for line in program.body) > 0
    x, eager = torch.randn(5, 8).to("protected"), model().to("protected")
    with torch.no_grad(), wir.record() as programs:
        assert same(wir.compile(program)(x), [eager(x)])
        assert same([torch.compile(eager, backend="wrapper_ir")(x)], [eager(x)])
    assert [kernels(each) for each in programs] == [0]
    assert_equivalent(program, targets=["python", "fx"])


class Interpreted:
    """Launches Triton kernels as a vendor's class does: Triton interprets them, on copies."""

    def __init__(self, device: torch.device, *, switches: bool = False) -> None:
        assert str(device) == "protected:0"
        self.kernels: list[Any] = []

    def add(self, name: str, signature: Any, code: str, **given: Any) -> None:
        source = TritonSource(
            name, signature, code, given.get("entry", name), given["constants"], {}
        )
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("TRITON_INTERPRET", "1")
            self.kernels.append((jit_function(source), given["constants"]))

    def load(self) -> tuple[Any, ...]:
        return tuple(partial(self.launch, *kernel) for kernel in self.kernels)

    @staticmethod
    def launch(kernel: Any, constants: Any, grid: Any, stream: int, *args: Any) -> None:
        assert stream == stream_of(0)
        kernel[grid](*args, **constants)


def stream_of(index: int) -> int:
    return 17 + index


def triton() -> None:
    """Inductor's scheduling for Triton, and kernels that a class of the vendor's launches."""

    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x * y + 1  # functions of Triton's own library were compiled to be compiled

    kind = devices.kind_of("protected")
    x, y = (torch.randn(5, 8).to("protected") for _ in "xy")
    taught = dataclasses.replace(kind, scheduling="triton", languages=(devices.TRITON,))
    devices.register_device(taught, over=kind)
    with pytest.raises(wir.WrapperIRError, match="Triton has no backend for it here: 0 active"):
        wir.capture(function, (x, y))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "triton", None)
        with pytest.raises(wir.WrapperIRError, match="device type 'protected': Triton cannot be"):
            wir.capture(function, (x, y))
    with pretended_gpu():
        size = torch.export.Dim("n", min=1, max=64)
        program = wir.capture(function, (x, y), dynamic_shapes=({0: size}, {0: size}))
    (kernel,) = program.kernels.values()
    assert isinstance(kernel.source, TritonKernel)
    with pytest.raises(wir.WrapperIRError, match="no launcher is declared for Triton kernels on"):
        wir.emit(program)
    side = dataclasses.replace(
        kind.python, triton=(f"{__name__}:Interpreted", f"{__name__}:stream_of")
    )
    devices.register_device(dataclasses.replace(taught, python=side), over=taught)
    x, y = (torch.randn(7, 8).to("protected") for _ in "xy")
    torch.testing.assert_close(wir.compile(program)(x, y)[0].cpu(), function(x.cpu(), y.cpu()))
    for target, why in (("cpp", "launched only from Python"), ("fx", "a class of its package")):
        with pytest.raises(wir.WrapperIRError, match=why):
            wir.emit(program, target)


def vendor() -> None:
    """A scheduling of a vendor's that derives from Inductor's: named by the kind, or registered."""
    from torch._inductor.codegen import common
    from torch._inductor.codegen.cpp import CppScheduling
    from torch._inductor.codegen.wrapper import PythonWrapperCodegen

    made = []

    class Scheduling(CppScheduling):
        def define_kernel(self, *args: Any, **kwargs: Any) -> str:
            made.append(super().define_kernel(*args, **kwargs))
            return made[-1]

    sys.modules["vendor"] = type(sys)("vendor")
    sys.modules["vendor"].Scheduling = Scheduling  # type: ignore[attr-defined]
    schedule("vendor:Scheduling")
    first = captured()
    assert len(made) == kernels(first) > 0
    assert "protected" not in common.device_codegens
    schedule("")
    with pytest.raises(wir.WrapperIRError, match="protected"):
        captured()  # nobody says who makes its kernels
    common.register_backend_for_device("protected", Scheduling, PythonWrapperCodegen)
    common.register_device_op_overrides("protected", common.get_device_op_overrides("cpu"))
    found = common.device_codegens["protected"]
    second = captured()
    assert str(second) == str(first)
    assert len(made) == 2 * kernels(first)
    assert common.device_codegens["protected"] is found


if __name__ == "__main__":
    sys.path.insert(0, sys.argv[1])
    import device_protected

    device_protected.load()
    globals()[sys.argv[2]]()
    print("done")
