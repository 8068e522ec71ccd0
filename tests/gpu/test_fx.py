"""Graphs that launch Triton kernels: the bits of emitted Python, whatever was done to the graph."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
import torch
import torch._dynamo
from torch import fx, nn

import wrapper_ir as wir
from tests.gpu.cases import CASES, t
from tests.gpu.test_programs import captured, no_tuning_by_time, same  # noqa: F401 - a fixture
from wrapper_ir.emitters.fx import FxArtifact, declare_kernels
from wrapper_ir.emitters.fx.triton import LAUNCH, NO_CONSTANTS, LaunchError, launched

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def emitted(program: wir.Program) -> FxArtifact:
    found = wir.emit(wir.plan_memory(program), "fx")
    assert isinstance(found, FxArtifact)
    return found


def launches(module: fx.GraphModule) -> list[fx.Node]:
    return [node for node in module.graph.nodes if node.target is LAUNCH]


def directly(module: fx.GraphModule, _: Any) -> Callable[..., Any]:
    return module


def interpreted(module: fx.GraphModule, _: Any) -> Callable[..., Any]:
    return fx.Interpreter(module).run


def copied(module: fx.GraphModule, _: Any) -> Callable[..., Any]:
    return copy.deepcopy(module)


def pickled(module: fx.GraphModule, _: Any) -> Callable[..., Any]:
    made: Callable[..., Any] = pickle.loads(pickle.dumps(module))
    return made


def without_dead_code(module: fx.GraphModule, _: Any) -> Callable[..., Any]:
    module = copy.deepcopy(module)
    module.graph.eliminate_dead_code()
    module.recompile()
    return module


def exported(module: fx.GraphModule, inputs: Any) -> Callable[..., Any]:
    return torch.export.export(module, inputs).module()


def functional(module: fx.GraphModule, inputs: Any) -> Callable[..., Any]:
    program = torch.export.export(module, inputs).run_decompositions({})
    assert not any(node.target is LAUNCH for node in program.graph.nodes)
    made: Callable[..., Any] = program.module()
    return made


def aot_eager(module: fx.GraphModule, _: Any) -> Callable[..., Any]:
    torch._dynamo.reset()
    declare(module)
    return torch.compile(module, backend="aot_eager")


def inductor(module: fx.GraphModule, inputs: Any) -> Callable[..., Any]:
    from torch._inductor.compile_fx import compile_fx

    made: Any = compile_fx(copy.deepcopy(module), list(inputs))
    return made


def declare(module: fx.GraphModule) -> None:
    """Fills torch's table of kernels again."""
    pickle.loads(pickle.dumps(module))


#: Ways that keep the kernels as they are compiled for the program.
EXACT = (
    *(directly, interpreted, copied, pickled, without_dead_code),
    *(exported, functional, aot_eager),
)


def seeded(function: Callable[..., Any], inputs: Any) -> Any:
    torch.manual_seed(1)
    return function(*inputs)


@pytest.mark.parametrize("name", CASES)
def test_the_same_bits(name: str) -> None:
    _, program, inputs = captured(name)
    expected = seeded(wir.compile(program), inputs)
    artifact = emitted(program)
    failures = {}

    def loaded(*_: Any) -> Callable[..., Any]:
        return artifact.load()

    with torch.no_grad():
        for way in (loaded, *EXACT):
            try:
                actual = seeded(way(artifact.graph_module, inputs), inputs)
            except Exception as error:
                failures[way.__name__] = f"{type(error).__name__}: {str(error)[:1500]}"
                continue
            if len(actual) != len(expected) or not all(map(same, actual, expected)):
                failures[way.__name__] = "other bits"
    assert not failures, "\n\n".join(f"{way}: {why}" for way, why in failures.items())


@pytest.mark.parametrize("name", ["pointwise", "reduction", "dynamic", "mlp", "attention"])
def test_compiled_again(name: str) -> None:
    """Inductor takes the kernels for kernels of a user, and compiles them its own way."""
    _, program, inputs = captured(name)
    expected = wir.compile(program)(*inputs)
    module = emitted(program).graph_module
    with torch.no_grad():
        torch.testing.assert_close(tuple(inductor(module, inputs)(*inputs)), tuple(expected))
        torch._dynamo.reset()
        declare(module)
        torch.testing.assert_close(tuple(torch.compile(module)(*inputs)), tuple(expected))


def test_other_sizes() -> None:
    _, program, _ = captured("dynamic")
    artifact, function = emitted(program), wir.compile(program)
    loaded = artifact.load()
    for size in (2, 7, 200):
        inputs = (t(size, 64), t(64, 64))
        expected = function(*inputs)
        assert all(map(same, artifact.graph_module(*inputs), expected))
        assert all(map(same, loaded(*inputs), expected))


def test_exported_with_dynamic_sizes() -> None:
    _, program, inputs = captured("dynamic")
    module, function = emitted(program).graph_module, wir.compile(program)
    dynamic = ({0: torch.export.Dim.DYNAMIC}, None)
    with torch.no_grad():
        made = torch.export.export(module, inputs, dynamic_shapes=dynamic)
        for way in (made, made.run_decompositions({})):
            for size in (2, 7, 200):
                other = (t(size, 64), t(64, 64))
                assert all(map(same, way.module()(*other), function(*other)))


def test_what_torch_finds_that_kernels_write() -> None:
    from torch._higher_order_ops.triton_kernel_wrap import get_mutated_tensors

    for name in ("pointwise", "reduction_in_two_steps", "scan_in_parts", "sort", "mlp"):
        _, program, _ = captured(name)
        nodes = launches(emitted(program).graph_module)
        assert nodes
        for node in nodes:
            kernel = launched(node)
            assert kernel is not None
            given: Any = node.kwargs["kwargs"]
            kwargs = {
                key: value.meta["val"] if isinstance(value, fx.Node) else value
                for key, value in given.items()
            }
            found = get_mutated_tensors(kernel.index, NO_CONSTANTS, kwargs, {})
            params = {p.name: p for p in kernel.definition.params}
            written = {
                n for n in params if getattr(params[n], "access", None) and writes(params[n])
            }
            assert set(found) == written


def writes(param: Any) -> bool:
    return bool(param.access.writes)


def test_a_folder_in_another_process(tmp_path: Path) -> None:
    _, program, inputs = captured("softmax")
    expected = wir.compile(program)(*inputs)
    emitted(program).graph_module.to_folder(tmp_path / "saved", "Saved")
    torch.save((inputs, expected), tmp_path / "values.pt")
    code = (
        "import sys, torch\n"
        f"sys.path.insert(0, {str(tmp_path)!r})\n"
        "from saved import Saved\n"
        f"inputs, expected = torch.load({str(tmp_path / 'values.pt')!r})\n"
        "assert all(map(torch.equal, Saved()(*inputs), expected))\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_after_torch_forgot_its_kernels() -> None:
    _, program, inputs = captured("pointwise")
    artifact = emitted(program)
    expected = artifact.graph_module(*inputs)
    torch._higher_order_ops.triton_kernel_wrap.kernel_side_table.reset_table()
    assert all(map(same, artifact.load()(*inputs), expected))
    torch._higher_order_ops.triton_kernel_wrap.kernel_side_table.reset_table()
    declare_kernels(wir.prepare(program, "fx"))
    assert all(map(same, artifact.graph_module(*inputs), expected))


def test_a_pass_may_change_blocks() -> None:
    _, program, inputs = captured("pointwise")
    artifact = emitted(program)
    expected = artifact.graph_module(*inputs)
    for node in launches(artifact.graph_module):
        given: Any = dict(node.kwargs)
        assert given["kwargs"]["XBLOCK"] > 32
        given["kwargs"] = {**given["kwargs"], "XBLOCK": 32}
        given["grid"] = [(64 * 64 // 32, 1, 1)]
        node.kwargs = given
    artifact.graph_module.recompile()
    assert all(map(same, artifact.graph_module(*inputs), expected))
    assert all(map(same, artifact.load()(*inputs), expected))


def test_wrong_launches() -> None:
    _, program, inputs = captured("pointwise")
    module = emitted(program).graph_module
    kernel = launched(launches(module)[0])
    assert kernel is not None
    with pytest.raises(LaunchError, match="missing or unknown"):
        kernel[1,](in_ptr0=inputs[0])
    given = {name: torch.zeros(4) if "ptr" in name else 4 for name in kernel.types}
    with pytest.raises(LaunchError, match="its tensors are on cpu"):
        kernel[1,](**given)


def test_torch_compile() -> None:
    torch.manual_seed(0)
    ours = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 8)).cuda()
    theirs = copy.deepcopy(ours)
    x = t(32, 64)
    options: dict[str, dict[str, Any]] = {"fx": {"options": {"emitter": "fx"}}, "python": {}}
    for model, emitter in ((ours, "fx"), (theirs, "python")):
        torch._dynamo.reset()
        function = torch.compile(model, backend="wrapper_ir", **options[emitter])
        function(x).square().sum().backward()
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert mine.grad is not None
        torch.testing.assert_close(mine.grad, other.grad)
