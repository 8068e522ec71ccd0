"""Kept arenas in C++: never seen in a result, right for any number of calls, released on demand."""

from __future__ import annotations

import ctypes
import threading
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor

import wrapper_ir as wir
from tests.emitters.corpus import CASES, program
from tests.emitters.cpp.compiling import run_program
from tests.emitters.cpp.test_cpp_corpus import assert_same, compare
from tests.native import calls
from wrapper_ir.runtime import ResultLayoutError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from wrapper_ir.lines import Program

OPS = """
extern aten::neg.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)
extern aten::mm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!)
extern aten::add.out(Tensor self, Tensor other, *, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)
"""

CHAIN = """
wir 2
program @chain {role} logical
symbol s0 : int [1, 4096] hint 16
input %x : f32[{n}, 33] @cpu
{ops}
{bind}
  %r = allocate : f32[{n}, {n}] @cpu
  %a = allocate : f32[{n}, 33] @cpu
  aten::neg.out(%x, out=out %a)
  %a_t = reinterpret %a : f32[33, {n}]{{1, 33}} @cpu
  %b = allocate : f32[{n}, {n}] @cpu
  aten::mm.out(%x, %a_t, out=out %b)
  %c = allocate : f32[{n}, {n}] @cpu
  aten::add.out(%b, %b, out=out %c)
  aten::mm.out(%b, %c, out=out %r)
return %r
"""

VISITING = """
wir 2
program @visiting inference planned
symbol s0 : int [1, 4096] hint 16
input %x : f32[s0, 4] @cpu
{ops}
extern wir_arena_test::visit(Tensor x) -> Tensor
  s0 = size %x, 0
  %pool = allocate_pool : u8[32*s0] @cpu
  %a = allocate_from_pool %pool[0] : f32[s0, 4] @cpu
  aten::neg.out(%x, out=out %a)
  %seen = wir_arena_test::visit(%x) : f32[s0, 4] @cpu
  %b = allocate_from_pool %pool[16*s0] : f32[s0, 4] @cpu
  aten::add.out(%a, %seen, out=out %b)
  free %seen
  %r = allocate : f32[s0, 4] @cpu
  aten::add.out(%a, %b, out=out %r)
  free %b
  free %a
  free %pool
return %r
"""


#: Programs of the corpus that have pools.
POOLED = {"pools", "pools_symbolic", "pools_types"}


def chain(*, dynamic: bool, role: str = "inference") -> Program:
    n, bind = ("s0", "  s0 = size %x, 0") if dynamic else ("16", "")
    made = wir.parse(CHAIN.format(role=role, n=n, bind=bind, ops=OPS))
    return wir.plan_memory(made, "pool")


def expected_chain(x: Tensor) -> Tensor:
    b = x @ -x.t()
    return b @ (b + b)


@pytest.fixture
def visitors() -> Iterator[list[Any]]:
    """A custom op; what is in the list is called with its argument."""
    with torch.library._scoped_library("wir_arena_test", "FRAGMENT") as library:
        library.define("visit(Tensor x) -> Tensor")
        called: list[Any] = []

        def visit(x: Tensor) -> Tensor:
            for each in called:
                each(x)
            return x + 1

        library.impl("visit", visit, "CPU")
        yield called


def visiting() -> Any:
    return wir.compile(wir.parse(VISITING.format(ops=OPS)), "cpp", arena="kept")


def expected_visit(x: Tensor) -> Tensor:
    return -x + (-x + (x + 1))


@pytest.mark.parametrize("name", ["pools", "pools_symbolic"])
def test_computes_the_same(name: str) -> None:
    compare(name, (program(name), program(name)), arena="kept")


def test_the_same_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    for limit, value in (("LONG", 0), ("FUNCTION", 2), ("FILE", 9), ("CREATE", 2)):
        monkeypatch.setattr(f"wrapper_ir.emitters.cpp.module.{limit}", value)
    compare("pools_symbolic", (program("pools_symbolic"), program("pools_symbolic")), arena="kept")


@pytest.mark.parametrize("name", sorted(CASES.keys() - POOLED))
def test_without_pools_it_is_the_same_text(name: str) -> None:
    made = program(name)
    kept = wir.emit(made, "cpp", arena="kept").source
    if "wir::Heap" in kept:  # for what ops and results take
        assert "wir::Arena" not in kept
    else:
        assert kept == wir.emit(made, "cpp").source


def test_a_pool_of_which_something_leaves_ends_with_its_call() -> None:
    text = VISITING.format(ops=OPS).replace("visit(%x)", "visit(%a)")
    assert "wir::Arena" not in wir.emit(wir.parse(text), "cpp", arena="kept").source


@pytest.mark.parametrize("role", ["inference", "backward"])
def test_fixed_sizes(role: str) -> None:
    made = chain(dynamic=False, role=role)
    in_cpp, in_python = wir.compile(made, "cpp", arena="kept"), wir.compile(made)
    results = []
    for _ in range(3):
        x = torch.randn(16, 33)
        results.append((in_cpp(x)[0], in_python(x)[0]))
    for mine, other in results:  # no call has touched what an earlier one gave
        assert_same(mine, other)
    assert in_cpp.release() > 0  # type: ignore[attr-defined]
    assert in_cpp.release() == 0  # type: ignore[attr-defined]
    assert_same(in_cpp(x)[0], in_python(x)[0])


def test_it_grows_with_what_calls_need() -> None:
    made = chain(dynamic=True)
    in_cpp, in_python = wir.compile(made, "cpp", arena="kept"), wir.compile(made)
    for rows in (1, 40, 7, 300, 299, 2):
        x = torch.randn(rows, 33)
        with torch.inference_mode(rows in (1, 300)):  # what it leaves is fit for every mode
            assert_same(in_cpp(x)[0], in_python(x)[0])
    held = in_cpp.release()  # type: ignore[attr-defined]
    in_cpp(torch.randn(300, 33))
    assert in_cpp.release() == held  # type: ignore[attr-defined]
    in_cpp(torch.randn(2, 33))
    assert 0 < in_cpp.release() < held  # type: ignore[attr-defined]


def test_as_much_is_held_as_in_python() -> None:
    made, x = chain(dynamic=True), torch.randn(40, 33)
    functions: list[Any] = [wir.compile(made, target, arena="kept") for target in ("python", "cpp")]
    wir.release_kept_memory()
    for function in functions:
        function(x)
    held = functions[0].release()
    assert held > 0
    assert wir.release_kept_memory() >= held  # what the other one holds, at least
    assert functions[1].release() == 0


def test_eight_threads() -> None:
    in_cpp: Any = wir.compile(chain(dynamic=True), "cpp", arena="kept")
    in_threads(lambda x: in_cpp(x)[0], in_cpp.release)


def in_threads(call: Any, release: Any) -> None:
    """Each of eight threads computes with sizes of its own, while memory is released."""
    wrong: list[int] = []
    done = threading.Event()

    def run(number: int) -> None:
        for n in range(60):
            rows = 1 + (n * 7 + number * 13) % 50
            x = torch.randn(rows, 33)
            if not torch.allclose(call(x), expected_chain(x), atol=1e-3, rtol=1e-4):
                wrong.append(rows)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    releaser = threading.Thread(target=lambda: [release() for _ in iter(done.is_set, True)])
    releaser.start()
    for thread in threads:
        thread.join()
    done.set()
    releaser.join()
    assert wrong == []


def test_a_call_inside_a_call_has_an_arena_of_its_own(visitors: list[Any]) -> None:
    function = visiting()
    depth: list[Tensor] = []
    freed: list[int] = []

    def again(inner: Tensor) -> None:
        if len(depth) < 5:
            depth.append(inner)
            more = torch.randn(2 * len(inner), 4)
            assert torch.equal(function(more)[0], expected_visit(more))
        else:
            freed.append(function.release())

    visitors.append(again)
    x = torch.randn(5, 4)
    assert torch.equal(function(x)[0], expected_visit(x))
    assert freed == [0]  # all were in use, and went with their calls
    assert function.release() == 0


def test_after_a_failed_call_it_is_as_good_as_new(visitors: list[Any]) -> None:
    function = visiting()
    x = torch.randn(5, 4)
    function(x)

    def fail(_: Tensor) -> None:
        raise LookupError("not today")

    visitors.append(fail)
    for rows in (5, 500):
        with pytest.raises(LookupError, match="not today"):
            function(torch.randn(rows, 4))
    assert function.release() == 0  # what a failed call had is not used again
    visitors.clear()
    assert torch.equal(function(x)[0], expected_visit(x))
    assert function.release() == 32 * 5


def test_an_op_cannot_outgrow_an_arena() -> None:
    """What would move the others' memory from under them is an error."""
    made = wir.parse(f"""
wir 2
program @outgrown inference planned
input %x : f32[64] @cpu
{OPS}
  %pool = allocate_pool : u8[64] @cpu
  %a = allocate_from_pool %pool[0] : f32[16] @cpu
  aten::neg.out(%x, out=out %a)
  %r = allocate : f32[16] @cpu
  aten::neg.out(%a, out=out %r)
  free %a
  free %pool
return %r
""")
    function = wir.compile(made, "cpp", arena="kept")
    for _ in range(2):
        with pytest.raises(ResultLayoutError, match="different size"):
            function(torch.randn(64))


# Libraries that others load.


class Container(calls.Native):
    """A container of a library, called from any thread."""

    def __call__(self, name: str, *args: object) -> None:
        if name != "Run":
            super().__call__(name, *args)
            return
        function = self.functions.AOTInductorModelContainerRun
        assert function(self.container, *args) == 0

    def release(self) -> int:
        bytes_ = ctypes.c_uint64(1)
        out = ctypes.byref(bytes_)
        self.call("WrapperIRModelContainerReleaseMemory", self.container, out)
        return bytes_.value


def test_a_container(tmp_path: Path) -> None:
    library = wir.export(chain(dynamic=True), tmp_path / "chain.so", arena="kept")
    with Container(library, runners=3) as container:

        def run(x: Tensor) -> Tensor:
            (result,) = container.run([x], results=1)
            assert result is not None
            return result

        assert container.release() == 0
        in_threads(run, container.release)
        container.release()
        x = torch.randn(20, 33)
        first = run(x)
        held = container.release()
        assert held > 0
        assert container.release() == 0
        assert torch.equal(run(x), first)
        run(torch.randn(40, 33))
        assert container.release() > held
        container.call("WrapperIRModelContainerReleaseMemory", container.container, None)
        with pytest.raises(calls.NativeError, match="there is no container"):
            container.call("WrapperIRModelContainerReleaseMemory", None, None)


HUGE = """
#include <cstdio>
#include <wir/arena.h>
extern "C" int madvise(void* memory, std::size_t bytes, int advice) noexcept {
  const auto begin = reinterpret_cast<std::size_t>(memory);
  std::printf("%zx+%zx %d\\n", begin, bytes, advice == MADV_HUGEPAGE);
  return -1;
}
int main() {
  const std::size_t mib = std::size_t{1} << 20;
  wir::advise_huge_pages(reinterpret_cast<void*>(16 * mib), 8 * mib);
  wir::advise_huge_pages(reinterpret_cast<void*>(16 * mib + 64), 4 * mib);
  wir::advise_huge_pages(reinterpret_cast<void*>(16 * mib), 4 * mib - 1);
  wir::advise_huge_pages(nullptr, 0);
}
"""


def test_large_arenas_are_advised_for_large_pages(tmp_path: Path) -> None:
    assert run_program(HUGE, tmp_path).split("\n") == ["1000000+800000 1", "1200000+200000 1", ""]
