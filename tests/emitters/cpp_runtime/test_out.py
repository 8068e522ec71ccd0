"""Results in memory that the caller gives, in C++: the very tensor, written once, or a clear no."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor

import wrapper_ir as wir
from tests.emitters.corpus import CASES, program
from tests.emitters.cpp.test_cpp_corpus import assert_same
from wrapper_ir.runtime import (
    InputCountError,
    NoOutError,
    OutCountError,
    OutLayoutError,
    OutOverlapError,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    Function = Callable[..., tuple[Any, ...]]

#: Inputs, constants, parts of constants and complex numbers returned; memory that had other names.
NAMES = ("results", "reuse", "constants", "complex_numbers", "zero_sizes", "cond")


@pytest.fixture(scope="module")
def results() -> Function:
    return wir.compile(program("results"), "cpp", out=True)


@pytest.fixture(scope="module")
def dynamic() -> Function:
    return wir.compile(program("dynamic_shapes"), "cpp", out=True)


def dense(value: Tensor) -> Tensor:
    return value.to_dense() if value.is_sparse else value


def like(value: Any) -> Tensor | None:
    """Memory for a result, full of something else."""
    if not isinstance(value, Tensor):
        return None
    made = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype)
    return made.view(value.dtype).fill_(1)


@pytest.mark.parametrize("name", NAMES)
def test_the_same_values_in_the_tensors_given(name: str) -> None:
    made, other = program(name), program(name)
    given, plain = wir.compile(made, "cpp", out=True), wir.compile(other, "cpp")
    for _ in range(2):
        torch.manual_seed(1)
        mine = CASES[name].make()
        torch.manual_seed(1)
        expected = plain(*CASES[name].make())
        out = [like(value) for value in expected]
        actual = given(*mine, out=out)
        assert len(actual) == len(expected)
        for value, tensor, wanted in zip(actual, out, expected, strict=True):
            assert tensor is None or value is tensor
            assert_same(value, wanted)


SEEN = """
wir 2
program @seen inference planned
input %x : f32[4, 6] @cpu
constant %w : f32[24] @cpu = parameter "w"
extern aten::neg.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)
extern wir_out_test::visit(Tensor x) -> Tensor
  %a = allocate : f32[6, 4] @cpu
  %a_t = reinterpret %a : f32[4, 6]{1, 4} @cpu
  aten::neg.out(%x, out=out %a_t)
  %seen = wir_out_test::visit(%a) : f32[6, 4] @cpu
  %r = reuse %a : f32[24] @cpu
return %r, %seen
"""


def test_what_the_program_allocates_is_made_in_place() -> None:
    """An op sees the caller's memory in the middle of the call, under another layout."""
    where: list[int] = []

    def visit(x: Tensor) -> Tensor:
        where.append(x.data_ptr())
        return x.clone()

    with torch.library._scoped_library("wir_out_test", "FRAGMENT") as library:
        library.define("visit(Tensor x) -> Tensor")
        library.impl("visit", visit, "CPU")
        weight = torch.zeros(24)
        made = wir.parse(SEEN).replace(data={"w": weight})
        function = wir.compile(made, "cpp", out=True)
        x, out = torch.randn(4, 6), torch.zeros(24)
        result, seen = function(x, out=[out, None])
        assert result is out
        assert where == [out.data_ptr()]
        assert torch.equal(out, -x.t().reshape(-1))
        assert torch.equal(seen.view(-1), out)
        with pytest.raises(OutOverlapError, match="an input or constant"):
            function(x, out=[weight, None])


def test_some_may_be_given(results: Function) -> None:
    x = torch.randn(3, 4)
    fresh = results(x)
    out = [None, torch.zeros(3, 4), *[None] * 8]
    got = results(x, out=tuple(out))
    assert got[1] is out[1]
    assert torch.equal(got[0], fresh[0])
    assert torch.equal(got[1], fresh[1])
    assert torch.equal(results(x, out=None)[0], fresh[0])


@pytest.mark.parametrize(
    ("position", "value", "error", "words"),
    [
        (0, torch.zeros(4, 4), OutLayoutError, r"out\[0\] has the wrong size"),
        (1, torch.zeros(2, 4), OutLayoutError, r"out\[1\] has the wrong size"),
        (0, torch.zeros(3, 5), OutLayoutError, "wrong size"),
        (0, torch.zeros(3, 4, 1), OutLayoutError, "wrong rank"),
        (0, torch.zeros(4, 3).t(), OutLayoutError, "wrong stride"),
        (0, torch.zeros(3, 4).double(), OutLayoutError, "wrong dtype"),
        (0, torch.zeros(3, 4, device="meta"), OutLayoutError, "wrong device"),
        (0, torch.zeros(3, 4).to_sparse(), OutLayoutError, "wrong storage layout"),
        (0, "memory", OutLayoutError, "wrong type"),
        (4, torch.zeros(3, 4), OutLayoutError, "no tensor"),
        (5, torch.tensor(3), OutLayoutError, "no tensor"),
    ],
)
def test_wrong_memory_is_refused(
    results: Function, position: int, value: Any, error: type[Exception], words: str
) -> None:
    out: list[Any] = [None] * 10
    out[position] = value
    before = value.clone() if isinstance(value, Tensor) else value
    with pytest.raises(error, match=words):
        results(torch.ones(3, 4), out=out)
    assert (
        not isinstance(value, Tensor) or value.is_meta or torch.equal(dense(value), dense(before))
    )
    assert torch.equal(results(torch.ones(3, 4))[0], torch.ones(3, 4))


def test_shared_memory_is_refused(results: Function) -> None:
    x, none = torch.randn(3, 4), [None] * 8
    with pytest.raises(OutOverlapError, match=r"out\[0\] shares memory with an input"):
        results(x, out=[x, None, *none])
    one = torch.zeros(24)
    with pytest.raises(OutOverlapError, match=r"out\[1\] shares memory with out\[0\]"):
        results(x, out=[one[:12].view(3, 4), one[11:23].view(3, 4), *none])
    both = results(x, out=[one[:12].view(3, 4), one[12:].view(3, 4), *none])  # side by side
    assert torch.equal(both[0], both[1])


def test_what_is_no_list_of_entries_is_refused(results: Function) -> None:
    x = torch.randn(3, 4)
    for wrong in ([None] * 9, 5, torch.zeros(10)):
        with pytest.raises(OutCountError, match="each of the 10 results"):
            results(x, out=wrong)
    with pytest.raises(InputCountError):
        results(x, x, out=[None] * 10)
    with pytest.raises(TypeError, match="by position"):
        results(x, outs=[None] * 10)


def test_programs_that_take_none_say_so() -> None:
    function = wir.compile(program("results"), "cpp")
    with pytest.raises(NoOutError, match="'results' was not made to take out="):
        function(torch.randn(3, 4), out=[None] * 10)
    assert issubclass(NoOutError, TypeError)


def test_odd_tensors_are_refused(results: Function) -> None:
    x, none = torch.randn(3, 4), [None] * 9

    def inside(tensor: Tensor) -> Tensor:
        with pytest.raises(OutLayoutError, match="ordinary tensor"):
            results(x, out=[tensor, *none])
        return tensor.sum()

    torch.vmap(inside)(torch.zeros(2, 3, 4))


def test_autograd_sees_the_writes(results: Function) -> None:
    x, w = torch.randn(3, 4), torch.ones(3, 4, requires_grad=True)
    out = torch.ones(3, 4)
    product = (out * w).sum()  # saves `out`
    results(x, out=[out, *[None] * 9])
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.backward()


def test_a_boxed_function_takes_them_too() -> None:
    artifact: Any = wir.emit(program("results"), "cpp", out=True)
    boxed = artifact.load_boxed()
    x, out = torch.randn(3, 4), torch.zeros(3, 4)
    assert boxed([x], out=[out, *[None] * 9])[0] is out
    assert torch.equal(out, boxed([x])[0])


def test_eight_threads_with_memory_of_their_own(dynamic: Function) -> None:
    wrong: list[int] = []

    def run(number: int) -> None:
        n = 3 + number
        x, y, out = torch.randn(n, 8), torch.randn(8, n), torch.empty(n * n)
        for _ in range(50):
            x.add_(1)
            if dynamic(x, y, out=[out, None, None])[0] is not out:
                wrong.append(number)
            if not torch.allclose(out, (x @ y).relu().flatten(), atol=1e-4, rtol=1e-4):
                wrong.append(number)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
