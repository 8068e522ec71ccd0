"""The debug printer on a GPU: the words of the CPU, and no more waiting than that takes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

import wrapper_ir as wir
from tests.gpu.test_programs import captured, no_tuning_by_time, same
from wrapper_ir.runtime import NonFiniteError, debug_session
from wrapper_ir.runtime.probes.describe import describe, statistics, value_ranges

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["no_tuning_by_time"]


def copies_to_the_host(run: Callable[[], object]) -> int:
    """How many times a run copies from the GPU, after one that sets everything up."""
    run()
    with profile(activities=[ProfilerActivity.CUDA]) as found:
        run()
        torch.cuda.synchronize()
    return sum("Memcpy DtoH" in event.name for event in found.events())


@pytest.mark.parametrize("level", ["names", "hook"])
def test_levels_that_read_nothing_wait_for_nothing(level: str, tmp_path: Path) -> None:
    _, program, inputs = captured("mlp")
    function = wir.compile(program, debug=level)
    seen: list[Any] = []
    with debug_session(output=str(tmp_path / "log")), wir.debug_printer.hook(seen.append):
        expected = function(*inputs)
        torch.cuda.synchronize()
        torch.cuda.set_sync_debug_mode("error")
        try:
            actual = function(*inputs)
        finally:
            torch.cuda.set_sync_debug_mode("default")
    assert all(map(same, actual, expected))
    assert (tmp_path / "log").read_text() if level == "names" else seen


@pytest.mark.parametrize("level", ["print", "stats", "save"])
def test_levels_that_show_values_copy_each_tensor_once(level: str, tmp_path: Path) -> None:
    _, program, inputs = captured("mlp")
    seen: list[int] = []
    hooked = wir.compile(program, debug="hook")
    with wir.debug_printer.hook(lambda event: seen.append(len(event.tensors))):
        hooked(*inputs)
    function = wir.compile(program, debug=level)
    with debug_session(output=str(tmp_path / "log"), directory=str(tmp_path / "files")):
        count = copies_to_the_host(lambda: function(*inputs))
    assert 0 < count <= sum(seen)


@pytest.mark.parametrize("level", ["check", "check_nan"])
def test_checks_wait_once_a_side(level: str, tmp_path: Path) -> None:
    _, program, inputs = captured("mlp")
    sides: list[str] = []
    hooked = wir.compile(program, debug="hook")
    with wir.debug_printer.hook(lambda event: sides.append(event.when)):
        hooked(*inputs)
    function = wir.compile(program, debug=level)
    with debug_session(output=str(tmp_path / "log")):
        assert 0 < copies_to_the_host(lambda: function(*inputs)) <= len(sides)
        inputs[0][3, 1] = torch.nan
        with pytest.raises(NonFiniteError, match=r"in all; it read .*1 NaN"):
            function(*inputs)


def lines_of(log: Path) -> list[str]:
    """What was shown; means and deviations may differ in the last digit."""
    return re.sub(r" (mean|std)=\S+", "", log.read_text()).splitlines()


@pytest.mark.parametrize("target", ["cpp", "fx"])
def test_every_emitter_says_the_same(target: str, tmp_path: Path) -> None:
    _, program, inputs = captured("mlp")
    logs = []
    for name in ("python", target):
        function = wir.compile(program, name, debug="print")
        with debug_session(output=str(tmp_path / name)):
            function(*inputs)
        logs.append(lines_of(tmp_path / name))
    assert logs[0] == logs[1]
    assert any("@cuda:0" in line for line in logs[0])


def test_so_does_an_exported_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, program, inputs = captured("mlp")
    function = wir.compile(program, debug="print")
    with debug_session(output=str(tmp_path / "python")):
        expected = function(*inputs)
    library = wir.export(program, tmp_path / "model.so", debug="print")
    monkeypatch.setenv("WRAPPER_IR_DEBUG_OUTPUT", str(tmp_path / "library"))
    runner = torch._C._aoti.AOTIModelContainerRunnerCuda(str(library), 1, "cuda", "")
    assert all(map(same, runner.run(list(inputs)), expected))
    assert lines_of(tmp_path / "library") == lines_of(tmp_path / "python")


@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int32, torch.uint8]
)
def test_numbers_are_those_of_the_cpu(dtype: torch.dtype) -> None:
    x = (torch.randn(7, 33) * 3).to(dtype)
    tensors = [x, x.t(), x[:, ::2], x[:0], x.view(-1)[3]]
    if dtype.is_floating_point:
        holes = x.clone()
        holes[2, 3], holes[4, 5] = torch.nan, -torch.inf
        tensors += [holes, -torch.zeros(4, dtype=dtype)]
    there = [tensor.cuda() for tensor in tensors]
    assert value_ranges(there) == value_ranges(tensors)
    for tensor, other in zip(tensors, there, strict=True):
        assert statistics(other) == statistics(tensor)
        if tensor.is_contiguous() and tensor.numel():
            words = describe("x", other)
            assert words.replace(" @cuda:0", "") == describe("x", tensor)
