"""Every program of the corpus: in C++ it computes what it computes in Python, bit for bit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor

import wrapper_ir as wir
from tests.emitters.corpus import CASES, program

if TYPE_CHECKING:
    from wrapper_ir.lines import Program

pytestmark = pytest.mark.usefixtures("corpus_kernels")

DONATING = ("reuse", "backward")
"""Programs that are given their inputs' memory."""


def bits(value: Tensor) -> Tensor:
    flat = value.detach().contiguous().reshape(-1)
    flat = torch.view_as_real(flat).reshape(-1) if flat.is_complex() else flat
    return flat.view(torch.uint8)


def assert_same(actual: Any, expected: Any) -> None:
    if not isinstance(expected, Tensor):
        assert type(actual) is type(expected)
        assert repr(actual) == repr(expected)
        return
    assert isinstance(actual, Tensor)
    assert actual.dtype == expected.dtype
    assert actual.shape == expected.shape
    assert actual.stride() == expected.stride()
    assert torch.equal(bits(actual), bits(expected))


def compare(name: str, made: tuple[Program, Program], *, rounds: int = 3, **options: Any) -> None:
    """Runs a program in Python and in C++ on equal inputs; results, inputs, constants are equal."""
    ours, theirs = made
    in_cpp, in_python = wir.compile(ours, "cpp", **options), wir.compile(theirs)
    for number in range(rounds):  # what is kept from call to call must not show
        inputs = []
        for _ in range(2):
            torch.manual_seed(number)
            inputs.append(CASES[name].make())
        expected = in_python(*inputs[0])
        actual = in_cpp(*inputs[1])
        assert len(actual) == len(expected)
        for mine, other in zip(actual, expected, strict=True):
            assert_same(mine, other)
        if name not in DONATING:
            for mine, other in zip(inputs[1], inputs[0], strict=True):
                assert_same(mine, other)
        for constant in ours.data:
            assert_same(ours.data[constant], theirs.data[constant])


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
@pytest.mark.parametrize("name", CASES)
def test_computes_the_same(name: str) -> None:
    compare(name, (program(name), program(name)))


@pytest.mark.parametrize("name", ["pools", "reuse", "constants", "dynamic_shapes"])
def test_the_same_without_kept_buffers(name: str) -> None:
    compare(name, (program(name), program(name)), scratch_bytes=0)


@pytest.mark.parametrize("name", ["cond_nested", "views", "symbols", "constants", "pools"])
def test_the_same_in_parts(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Long programs are dealt out to functions and files; here short ones are."""
    for limit, value in (("LONG", 0), ("FUNCTION", 2), ("FILE", 1), ("CREATE", 2)):
        monkeypatch.setattr(f"wrapper_ir.emitters.cpp.module.{limit}", value)
    made = program(name)
    artifact: Any = wir.emit(made, "cpp")
    assert "part_1.cpp" in artifact.sources
    compare(name, (made, program(name)))


@pytest.mark.parametrize("size", [2, 3, 7, 8])
def test_nested_choices(size: int) -> None:
    x = torch.randn(size)
    in_cpp = wir.compile(program("cond_nested"), "cpp")
    for mine, other in zip(in_cpp(x), wir.compile(program("cond_nested"))(x), strict=True):
        assert_same(mine, other)


def test_a_loop_that_never_runs_gives_tensors_of_its_own() -> None:
    x = torch.randn(4)
    count, total = wir.compile(program("while"), "cpp")(torch.tensor(9), x, x)
    assert count.item() == 9
    assert torch.equal(total, x)
    assert total.data_ptr() != x.data_ptr()
    y = torch.randn(3)
    counts, rounds = wir.compile(program("while_stacked"), "cpp")(torch.tensor(9), y)
    assert counts.tolist() == [9]
    assert torch.equal(rounds, y[None])


def test_views_of_results_are_views() -> None:
    flat, maybe, dense = wir.compile(program("aliases"), "cpp")(torch.randn(4, 6))
    flat.zero_()
    assert not maybe.any() or maybe.data_ptr() != flat.data_ptr()
    view = wir.compile(program("results"), "cpp")(torch.randn(3, 4))
    view[0].fill_(5)
    assert view[0] is view[1]
    assert (view[2] == 5).all()
    assert dense.shape == (6, 4)
