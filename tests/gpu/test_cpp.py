"""Programs in C++ on a GPU: the bits of the Python emitter and of stock Inductor."""

from __future__ import annotations

import copy
import ctypes
import gc
import re
import subprocess
import threading
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

import wrapper_ir as wir
from tests.export.deploy import compile_program
from tests.gpu.cases import CASES, t
from tests.gpu.test_programs import captured, compiled, no_tuning_by_time, same
from tests.native.calls import Native, NativeError
from wrapper_ir.aot import meanwhile
from wrapper_ir.errors import WrapperIRError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["no_tuning_by_time"]


@pytest.mark.parametrize("name", CASES)
def test_the_same_as_python_and_stock(name: str) -> None:
    model, program, inputs = captured(name)
    expected = compiled(name, model, inputs, "inductor")
    function = wir.compile(program, "cpp")
    for _ in range(3):  # the second call uses what the first one kept
        torch.manual_seed(1)
        actual = function(*inputs)
        assert len(actual) == len(expected)
        assert all(map(same, actual, expected))


@pytest.mark.parametrize("name", ["dynamic", "number_of_the_host", "mixed", "combo", "random"])
def test_the_backend_gives_the_same(name: str) -> None:
    torch.manual_seed(0)
    model, inputs = CASES[name].make().cuda(), CASES[name].inputs()
    expected = compiled(name, model, inputs, "inductor")
    actual = compiled(name, model, inputs, "wrapper_ir", {"emitter": "cpp"})
    assert all(map(same, actual, expected))


@pytest.mark.parametrize("name", ["pointwise", "scan_in_parts", "dynamic", "attention"])
@pytest.mark.parametrize("strategy", ["none", "reuse", "pool"])
def test_every_plan_gives_the_same(name: str, strategy: str) -> None:
    _, program, inputs = captured(name)
    expected = wir.compile(program)(*inputs)
    planned = wir.plan_memory(program, strategy)
    assert all(map(same, wir.compile(planned, "cpp")(*inputs), expected))
    kept = wir.compile(planned, "cpp", arena="kept")
    for _ in range(2):
        assert all(map(same, kept(*inputs), expected))


@pytest.mark.parametrize(
    "name",
    ["dynamic", "attention", "conv", "scan_in_parts", "nonzero", "mixed", "random", "template"],
)
def test_packages(name: str, tmp_path: Path) -> None:
    _, program, inputs = captured(name)
    file = wir.export(program, tmp_path / "model.pt2")
    loaded = torch._inductor.aoti_load_package(str(file))
    torch.manual_seed(1)
    expected = wir.compile(program)(*inputs)
    torch.manual_seed(1)
    found = loaded(*inputs)
    found = list(found) if isinstance(found, (tuple, list)) else [found]
    assert all(map(same, found, expected))


def test_other_sizes() -> None:
    model, program, _ = captured("dynamic")
    function = wir.compile(program, "cpp")
    for size in (2, 7, 200):
        inputs = (t(size, 64), t(64, 64))
        torch.testing.assert_close(tuple(function(*inputs)), tuple(model(*inputs)))


def test_training() -> None:
    torch.manual_seed(0)
    ours = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 8)).cuda()
    theirs = copy.deepcopy(ours)
    x = t(32, 64)
    for model, backend, options in (
        (ours, "wrapper_ir", {"emitter": "cpp"}),
        (theirs, "inductor", None),
    ):
        torch._dynamo.reset()
        torch.compile(model, backend=backend, options=options)(x).square().sum().backward()
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert mine.grad is not None
        # cuBLAS may add up in another order from one call to the next.
        torch.testing.assert_close(mine.grad, other.grad)


def test_a_thread_that_has_not_used_the_gpu() -> None:
    _, program, inputs = captured("pointwise")
    function, found = wir.compile(program, "cpp"), []
    thread = threading.Thread(target=lambda: found.append(function(*inputs)))
    thread.start()
    thread.join()
    assert all(map(same, found[0], function(*inputs)))


@pytest.mark.parametrize("name", ["pointwise", "mlp", "attention"])
def test_streams_in_turn(name: str) -> None:
    _, program, inputs = captured(name)
    function = wir.compile(program, "cpp")
    expected = function(*inputs)
    torch.cuda.synchronize()
    streams = [torch.cuda.Stream() for _ in range(3)]
    found = []
    for turn in range(12):
        with torch.cuda.stream(streams[turn % 3]):
            found.append(function(*inputs))
    torch.cuda.synchronize()
    for actual in found:
        assert all(map(same, actual, expected))


@pytest.mark.parametrize("name", ["pointwise", "mlp", "attention"])
def test_a_captured_graph(name: str) -> None:
    _, program, inputs = captured(name)
    function: Any = wir.compile(program, "cpp")
    expected = function(*inputs)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        actual = function(*inputs)
    function.release()
    function(*inputs)
    graph.replay()
    torch.cuda.synchronize()
    assert all(map(same, actual, expected))


def test_inputs_on_the_host_are_refused() -> None:
    _, program, inputs = captured("pointwise")
    with pytest.raises(WrapperIRError, match="device"):
        wir.compile(program, "cpp")(inputs[0].cpu(), inputs[1])


def test_values_are_shown(capfd: pytest.CaptureFixture[str]) -> None:
    _, program, inputs = captured("softmax")
    expected = wir.compile(program)(*inputs)
    actual = wir.compile(program, "cpp", debug="print")(*inputs)
    assert all(map(same, actual, expected))
    assert "triton_" in "".join(capfd.readouterr())


def test_code_for_another_gpu_is_refused() -> None:
    _, program, inputs = captured("pointwise")
    program = wir.plan_memory(program)
    other = "sm_90" if torch.cuda.get_device_capability() < (9, 0) else "sm_80"
    function = wir.emit(program, "cpp").load(gpu_arch=other)
    with pytest.raises(WrapperIRError, match=rf"compiled for {other}, and this GPU is sm_"):
        function(*inputs)


def test_code_for_several_gpus() -> None:
    _, program, inputs = captured("pointwise")
    major, minor = torch.cuda.get_device_capability()
    program = wir.plan_memory(program)
    function = wir.emit(program, "cpp").load(gpu_arch=("sm_80", f"sm_{major}{minor}"))
    assert all(map(same, function(*inputs), wir.compile(program)(*inputs)))


def printed(text: str) -> list[float]:
    """The numbers of a tensor that C++ printed, perhaps after a line with their common factor."""
    found, scale = [], 1.0
    for line in text.splitlines():
        factor = re.fullmatch(r"\s*(\S+) +\*\s*", line)
        if factor is not None:
            scale = float(factor[1])
        numbers = re.findall(r"-?\d+\.\d+(?:e[+-]\d+)?", "" if factor else line)
        found += [float(number) * scale for number in numbers]
    return found


def test_new_constants_are_there_on_every_stream(tmp_path: Path) -> None:
    size = 8192
    model = nn.Linear(size, size, bias=False)
    program = wir.capture(model.cuda(), (t(1, size),))
    library = wir.export(program, tmp_path / "model.so")
    runner = torch._C._aoti.AOTIModelContainerRunnerCuda(str(library), 2, "cuda", "")
    x = torch.zeros(1, size, device="cuda")
    x[0, -1] = 1  # what is copied last
    one, other = torch.cuda.Stream(), torch.cuda.Stream()
    torch.cuda.synchronize()
    for number in range(1, 6):
        with torch.cuda.stream(one):
            weight = torch.full((size, size), float(number), device="cuda")
            runner.update_constant_buffer({"weight": weight}, False, True)
        with torch.cuda.stream(other):
            (found,) = runner.run([x])
            assert found.unique().tolist() == [number]


def test_constants_of_the_caller_are_used_where_they_are(tmp_path: Path) -> None:
    size = 4096
    program = wir.capture(nn.Linear(size, size, bias=False).cuda(), (t(1, size),))
    library = wir.export(program, tmp_path / "model.so")
    weight = torch.randn(size, size, device="cuda")
    x = torch.randn(1, size, device="cuda")
    before = torch.cuda.memory_allocated()
    with Native(library, 2, "cuda", external={"weight": weight}) as model:
        assert torch.cuda.memory_allocated() - before < weight.nbytes // 2
        for _ in range(2):
            (y,) = model.run([x], results=1)
            assert y is not None
            torch.testing.assert_close(y, torch.nn.functional.linear(x, weight))
            weight.neg_()
    with pytest.raises(NativeError, match="'weight' has the wrong device"):
        Native(library, device="cuda", external={"weight": weight.cpu()})


def test_streams_that_have_a_runner_of_their_own(tmp_path: Path) -> None:
    model, program, inputs = captured("mlp")
    library = wir.export(program, tmp_path / "model.so", arena="kept")
    with torch.no_grad():
        expected = model(*inputs)
    streams = [torch.cuda.Stream() for _ in range(2)]
    found: dict[int, set[int]] = {0: set(), 1: set()}
    with Native(library, 2, "cuda") as container:
        container("SetUseStreamAffinity", ctypes.c_bool(True))
        torch.cuda.synchronize()
        for turn in (0, 1, 1, 0, 1, 0):
            handle, number = streams[turn].cuda_stream, ctypes.c_int64()
            (y,) = container.run(inputs, results=1, stream=handle)
            where = ctypes.c_void_p(handle)
            container("GetStreamAffinityModelIndexForTesting", where, ctypes.byref(number))
            found[turn].add(number.value)
            streams[turn].synchronize()
            assert y is not None
            torch.testing.assert_close(y, expected, atol=2e-4, rtol=1e-3)
        assert sorted(map(sorted, found.values())) == [[0], [1]]


def test_a_program_without_python(tmp_path: Path) -> None:
    model, program, _ = captured("mlp")
    package = wir.export(program, tmp_path / "mlp.pt2")
    command = [compile_program(tmp_path), package, "32", "64"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    x = (torch.arange(32 * 64, dtype=torch.float32) / (32 * 64)).reshape(32, 64).cuda()
    with torch.no_grad():
        expected = model(x).flatten().tolist()
    # Columns may be printed in groups, and so the numbers in another order.
    assert sorted(printed(done.stdout)) == pytest.approx(sorted(expected), abs=2e-4, rel=1e-3)


def test_folders(tmp_path: Path) -> None:
    _, program, inputs = captured("softmax")
    folder = wir.export(program, tmp_path / "sources", gpu_arch=("sm_80", "sm_90"))
    assert len(list(folder.glob("*_sm_80.cubin"))) == len(list(folder.glob("*_sm_90.cubin"))) >= 1
    library = wir.export(program, tmp_path / "model.so")
    runner = torch._C._aoti.AOTIModelContainerRunnerCuda(str(library), 1, "cuda", "")
    assert all(map(same, runner.run(list(inputs)), wir.compile(program)(*inputs)))


@pytest.mark.parametrize("level", ["print", "check", "stats", "save"])
def test_probes_in_libraries(
    level: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("WRAPPER_IR_DEBUG_DIR", str(tmp_path / "shown"))
    _, program, inputs = captured("softmax")
    library = wir.export(program, tmp_path / "model.so", debug=level)
    runner = torch._C._aoti.AOTIModelContainerRunnerCuda(str(library), 1, "cuda", "")
    assert all(map(same, runner.run(list(inputs)), wir.compile(program)(*inputs)))
    files = [file for file in (tmp_path / "shown").rglob("*") if file.is_file()]
    if level == "print":
        assert "f32[32, 128] @cuda:0" in "".join(capfd.readouterr())
    elif level == "save":
        tensors = [torch.load(file) for file in files if file.suffix == ".pt"]
        assert any(torch.equal(each, inputs[0].cpu()) for each in tensors if each.dim() == 2)


def test_no_call_moves_to_a_library_while_the_caller_captures_a_graph() -> None:
    """Loading a library's kernels would spoil the capture."""
    options = {"emitter": "cpp", "build": "background"}
    torch._dynamo.reset()
    run = torch.compile(lambda x: (x.sin() + 7.25).cumsum(0), backend="wrapper_ir", options=options)
    before = meanwhile._building.all()
    static = torch.randn(64, 64, device="cuda")
    wanted = run(static)
    (served,) = [each for each in meanwhile._building.all() if each not in before]
    assert wir.wait_for_builds()
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        result = run(static)
    assert served._python is not None  # the library is there, and the call was Python's
    graph.replay()
    assert torch.equal(result, wanted)
    assert torch.equal(run(static), wanted)
    assert served._python is None
    # Replays find the kernels and the memory that they were recorded with.
    gc.collect()
    torch.cuda.empty_cache()
    other = torch.randn_like(static)
    static.copy_(other)
    graph.replay()
    assert torch.equal(result, run(other))
    # And the library's calls can be captured, too.
    again = torch.cuda.CUDAGraph()
    with torch.cuda.graph(again):
        result = run(static)
    again.replay()
    assert torch.equal(result, run(other))
