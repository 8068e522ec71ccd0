"""Programs that use two GPUs, and programs on the second one."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest
import torch

import wrapper_ir as wir
from tests.gpu.cases import CASES, Function, t
from tests.gpu.test_programs import no_tuning_by_time, same
from wrapper_ir.passes import run_passes
from wrapper_ir.runtime import InputLayoutError, KeptGpuArena, NonFiniteError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from torch import Tensor

__all__ = ["no_tuning_by_time"]

pytestmark = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="there are not two GPUs")


def both(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    """Kernels, products and a copy, on either."""
    moved = (x @ x).to(y.device)
    return x.sin() + 1, y * 2, moved + y, torch.softmax(y, -1), torch.relu(y @ moved)


def inputs() -> tuple[Tensor, Tensor]:
    torch.manual_seed(0)
    return t(64, 64), t(64, 64, device="cuda:1")


def check(actual: Any, expected: Any) -> None:
    assert len(actual) == len(expected)
    found = zip(actual, expected, strict=True)
    assert [number for number, pair in enumerate(found) if not same(*pair)] == []
    assert torch.cuda.current_device() == 0


def stock(function: Callable[..., Any], *args: Tensor) -> Any:
    torch._dynamo.reset()
    with torch.no_grad():
        return torch.compile(function)(*args)


def captured(function: Callable[..., Any], *args: Tensor) -> wir.Program:
    torch._dynamo.reset()
    with torch.no_grad():
        return wir.capture(Function(function), args)


@pytest.mark.parametrize("emitter", ["python", "cpp", "fx"])
def test_the_backend_gives_the_same_as_stock(emitter: str) -> None:
    x, y = inputs()
    expected = stock(both, x, y)
    torch._dynamo.reset()
    with torch.no_grad():
        function = torch.compile(both, backend="wrapper_ir", options={"emitter": emitter})
        for _ in range(3):
            check(function(x, y), expected)


@pytest.mark.parametrize("emitter", ["python", "cpp"])
@pytest.mark.parametrize("strategy", ["none", "reuse", "pool"])
@pytest.mark.parametrize("options", [{}, {"arena": "kept"}, {"debug": "check"}, {"debug": "save"}])
def test_a_program_on_two(
    emitter: str,
    options: dict[str, str],
    strategy: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WRAPPER_IR_DEBUG_DIR", str(tmp_path / "shown"))
    x, y = inputs()
    expected = both(x, y)
    program = wir.plan_memory(captured(both, x, y), strategy)
    function = wir.compile(program, emitter, **options)
    first = function(x, y)
    for actual, wanted in zip(first, expected, strict=True):
        torch.testing.assert_close(actual, wanted)
    for _ in range(3):
        check(function(x, y), first)
    streams = [torch.cuda.Stream(device=n % 2) for n in range(4)]
    torch.cuda.synchronize(0)
    torch.cuda.synchronize(1)
    for one, other in zip(streams[::2], streams[1::2], strict=True):
        with torch.cuda.stream(one), torch.cuda.stream(other), torch.cuda.device(0):
            check(function(x, y), first)


def test_values_are_checked_on_both() -> None:
    x, y = inputs()
    function = wir.compile(captured(both, x, y), debug="check")
    y[0, 0] = float("nan")
    with pytest.raises(NonFiniteError):
        function(x, y)


@pytest.mark.parametrize("emitter", ["python", "cpp"])
@pytest.mark.parametrize("name", ["pointwise", "softmax", "mlp"])
def test_a_program_on_the_second(name: str, emitter: str) -> None:
    torch.manual_seed(0)
    case = CASES[name]
    model = case.make().to("cuda:1")
    args = tuple(each.to("cuda:1") for each in case.inputs())
    expected = stock(model, *args)
    torch._dynamo.reset()
    with torch.no_grad():
        program = wir.capture(model, args)
    for options in ({}, {"arena": "kept"}, {"cuda_graph": True}):
        function = wir.compile(program, emitter, **options)
        for _ in range(4):
            actual = function(*args)
            check(actual, expected if isinstance(expected, tuple) else (expected,))


def current(name: str, number: int) -> tuple[wir.Program, tuple[Tensor, ...], Any]:
    """A program without a number, arguments on a GPU, and what the model makes of them there."""
    torch.manual_seed(0)
    case = CASES[name]
    model, first = case.make().cuda(), tuple(each.cuda() for each in case.inputs())
    program = run_passes(captured(model, *first), ["current-device"])
    assert "cuda:" not in str(program)
    moved = copy.deepcopy(model).to(f"cuda:{number}")
    args = tuple(each.to(f"cuda:{number}") for each in first)
    with torch.no_grad():
        return program, args, moved(*args)


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("emitter", ["python", "cpp", "fx"])
def test_a_program_runs_on_the_gpu_that_is_current_when_it_is_loaded(
    emitter: str, number: int
) -> None:
    program, args, expected = current("softmax", number)
    with torch.cuda.device(number):
        function = wir.compile(program, emitter)
    for _ in range(3):
        (actual,) = function(*args)  # while another one may be current
        torch.testing.assert_close(actual, expected)
    with pytest.raises(InputLayoutError, match="device"):
        function(*(each.to(f"cuda:{1 - number}") for each in args))


def test_packages_run_where_they_are_loaded(tmp_path: Path) -> None:
    program, args, expected = current("mlp", 1)
    package = wir.export(program, tmp_path / "model.pt2")
    for loaded in (
        wir.load_package(package, device="cuda:1"),
        torch._inductor.aoti_load_package(str(package), device_index=1),
    ):
        torch.testing.assert_close(loaded(*args), expected)
    here = tuple(each.to("cuda:0") for each in args)
    torch.testing.assert_close(wir.load_package(package)(*here), expected.to("cuda:0"))
    library = wir.export(program, tmp_path / "model.so")
    for device in ("cuda:0", "cuda:1", "cuda:0"):
        given = tuple(each.to(device) for each in args)
        loaded = wir.load_package(library, device=device)
        torch.testing.assert_close(loaded(*given), expected.to(device))


def test_libraries_for_two(tmp_path: Path) -> None:
    x, y = inputs()
    program = captured(both, x, y)
    expected = wir.compile(program)(x, y)
    library = wir.export(program, tmp_path / "model.so")
    runner = torch._C._aoti.AOTIModelContainerRunnerCuda(str(library), 1, "cuda", "")
    check(runner.run([x, y]), expected)


def test_an_arena_asks_whether_its_own_gpu_is_captured() -> None:
    kept = [KeptGpuArena(torch.device("cuda", n), 64) for n in (0, 1)]
    for recorded in (0, 1):
        stream = torch.cuda.Stream(device=recorded)
        # In the usual mode nothing may be allocated meanwhile, not on the other one either.
        graph = torch.cuda.graph(
            torch.cuda.CUDAGraph(), stream=stream, capture_error_mode="relaxed"
        )
        with torch.cuda.device(recorded), graph, torch.cuda.device(1 - recorded):
            homes = [each.take().home is None for each in kept]
        assert homes == [recorded == 0, recorded == 1]
