"""What library ops and results take in calls, kept: how much, for whom, and that nobody notices."""

from __future__ import annotations

import ctypes
import gc
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor

import wrapper_ir as wir
from tests.models.memory import peak_bytes
from tests.native import calls

if TYPE_CHECKING:
    from pathlib import Path

SIDE = 256
ONE = SIDE * SIDE * 4

#: One op allocates what the call is done with, another one its result.
TEXT = """\
wir 2
program @two_ops inference planned
input %x : f32[256, 256] @cpu
input %i : i64[256] @cpu
extern aten::index_select(Tensor self, int dim, Tensor index) -> Tensor
extern aten::exp(Tensor self) -> Tensor
  %a = aten::exp(%x) : f32[256, 256] @cpu
  %b = aten::index_select(%a, 0, %i) : f32[256, 256] @cpu
  free %a
return %b
"""

TARGETS = pytest.mark.parametrize("target", ["python", "cpp"])


def inputs(index: int = 0) -> tuple[Tensor, Tensor]:
    return torch.rand(SIDE, SIDE), torch.full((SIDE,), index)


def expected(x: Tensor, i: Tensor) -> Tensor:
    return x.exp()[i]


def made(target: str) -> Any:
    return wir.compile(wir.parse(TEXT), target, arena="kept")


@TARGETS
def test_what_a_call_needed_is_kept_and_no_more(target: str) -> None:
    function, given = made(target), inputs()
    results = [function(*given)[0] for _ in range(6)]
    assert all(torch.equal(result, expected(*given)) for result in results)
    del results
    assert function.release() == 2 * ONE
    assert function.release() == 0
    (result,) = function(*given)
    assert function.release() == ONE  # the other is the result's
    assert torch.equal(result, expected(*given))


@TARGETS
def test_results_outlive_what_made_them(target: str) -> None:
    function, given = made(target), inputs()
    (result,) = function(*given)
    function.release()
    function(*inputs(1))
    del function
    gc.collect()
    assert torch.equal(result, expected(*given))


@TARGETS
def test_wir_release_frees_it_too(target: str) -> None:
    function, given = made(target), inputs()
    function(*given)
    assert wir.release_kept_memory() >= 2 * ONE
    assert function.release() == 0


@TARGETS
def test_after_an_error_nobody_is_served(target: str) -> None:
    function = made(target)
    with pytest.raises(Exception, match="index out of range"):
        function(*inputs(SIDE))
    other = torch.ones(16 * ONE, dtype=torch.uint8)
    del other
    assert function.release() <= 2 * ONE
    given = inputs()
    assert torch.equal(function(*given)[0], expected(*given))


@TARGETS
def test_the_profiler_counts_what_is_served(target: str) -> None:
    function, given = made(target), inputs()
    for _ in range(2):
        assert peak_bytes(lambda: function(*given)) == 2 * ONE


@TARGETS
def test_threads_exchange_results(target: str) -> None:
    function = made(target)
    given = [inputs(index % SIDE) for index in range(32)]
    with ThreadPoolExecutor(8) as threads:
        for _ in range(3):
            found = list(threads.map(lambda one: function(*one)[0], given))
            assert all(map(torch.equal, found, [expected(*one) for one in given]))
            found.reverse()
            threads.submit(found.clear).result()  # they die in another thread
    assert 2 * ONE <= function.release() <= 8 * 2 * ONE


def test_a_library_that_others_load(tmp_path: Path) -> None:
    library = wir.export(wir.parse(TEXT), tmp_path / "two_ops.so", arena="kept")
    given = inputs()
    with calls.Native(library, runners=1) as container:
        for _ in range(3):
            (result,) = container.run(list(given), results=1)
        freed = ctypes.c_uint64()
        release = "WrapperIRModelContainerReleaseMemory"
        container.call(release, container.container, ctypes.byref(freed))
        assert freed.value == 2 * ONE  # of the op between, and of the result before the last
    assert result is not None
    assert torch.equal(result, expected(*given))  # the library is done with
    del result
    assert torch.equal(torch.ones(ONE), torch.ones(ONE))


def test_what_allocates_little_is_not_served() -> None:
    text = TEXT.replace("256", "16")
    assert "KeptHeap" not in wir.emit(wir.parse(text), arena="kept").source
    assert "wir::Heap" not in wir.emit(wir.parse(text), "cpp", arena="kept").source
    assert "KeptHeap" in wir.emit(wir.parse(TEXT), arena="kept").source
    assert "wir::Heap" in wir.emit(wir.parse(TEXT), "cpp", arena="kept").source
