"""Choices among many, by every number and type of number, in every emitter and the interpreter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch

import wrapper_ir as wir
from tests.emitters.corpus import CASES
from tests.emitters.corpus import program as of_corpus
from tests.emitters.fx.support import ABSENT
from tests.export.support import run as run_library
from wrapper_ir.lines import SELECTOR_TYPES, Program

if TYPE_CHECKING:
    from pathlib import Path

EMITTERS = [
    *("python", "cpp"),
    pytest.param("fx", marks=pytest.mark.skipif(bool(ABSENT), reason="torch has no such op")),
]
#: For long programs, which take a C++ compiler half a minute.
LONG_IN_CPP = [EMITTERS[0], pytest.param("cpp", marks=pytest.mark.long), EMITTERS[-1]]
OPS = [f"aten::{name}(Tensor self) -> Tensor" for name in ("neg", "abs", "relu")]


def choices(*kinds: tuple[str | None, int]) -> Program:
    """A program of choices, each by a number, in a tensor of a type or not, between many ops."""
    b = wir.Builder("choices")
    x = b.input("x", "f32", (3,))
    found = []
    for place, (dtype, count) in enumerate(kinds):
        name = f"number{place}"
        number: Any = b.input(name, dtype, (1,)) if dtype else b.scalar_input(b.symbol(name))
        cases = [lambda v, op=op: b.extern(op, v, result=v) for op in OPS[:count]]
        found.append(b.switch(number, [x], cases))
    b.returns(*found)
    return b.build()


def chosen(number: int, count: int, x: torch.Tensor) -> torch.Tensor:
    return (-x, x.abs(), x.relu())[max(0, min(number, count - 1))]


@pytest.mark.parametrize("emitter", LONG_IN_CPP)
def test_a_number_out_of_range_runs_the_nearest_region(emitter: str) -> None:
    kinds = [(dtype, count) for dtype in (None, "i64") for count in (1, 2, 3)]
    made = choices(*kinds)
    run, x = wir.compile(made, emitter), torch.tensor([-1.0, 0.5, 2.0])
    for number in (-(2**40), -1, 0, 1, 2, 3, 2**40):
        given = [torch.tensor([number]) if dtype else number for dtype, _ in kinds]
        expected = [chosen(number, count, x) for _, count in kinds]
        for found in (run(x, *given), wir.interpret(made, x, *given)):
            assert all(map(torch.equal, found, expected)), number


@pytest.mark.parametrize("emitter", LONG_IN_CPP)
def test_integers_of_each_type_choose(emitter: str) -> None:
    made = choices(*((dtype.short, 3) for dtype in SELECTOR_TYPES))
    run, x = wir.compile(made, emitter), torch.tensor([-1.0, 0.5, 2.0])
    types = [getattr(torch, dtype.torch_name) for dtype in SELECTOR_TYPES]
    for least in (True, False):
        limits = [torch.iinfo(each).min if least else torch.iinfo(each).max for each in types]
        given = [torch.tensor([n], dtype=each) for n, each in zip(limits, types, strict=True)]
        expected = chosen(-1 if least else 2, 3, x)
        assert all(torch.equal(found, expected) for found in run(x, *given))


@pytest.mark.parametrize("emitter", EMITTERS)
@pytest.mark.parametrize("size", [3, 6])
def test_each_case_of_the_corpus(emitter: str, size: int) -> None:
    run, case = wir.compile(of_corpus("switch"), emitter), CASES["switch"]
    for number in range(-1, 4):
        given = [torch.tensor([number], dtype=torch.int32), torch.randn(size, 2)]
        found, expected = run(*given), case.run(*given)
        assert torch.equal(found[0], expected[0])
        assert found[1] == expected[1]


def test_an_exported_library_chooses(tmp_path: Path) -> None:
    library = wir.export(choices(("i64", 3)), tmp_path / "choices.so")
    x = torch.tensor([-1.0, 0.5, 2.0])
    for number in (-5, 0, 1, 2, 9):
        (found,) = run_library(library, x, torch.tensor([number]))
        assert torch.equal(found, chosen(number, 3, x))


@pytest.mark.skipif(not ABSENT, reason="torch has such an op")
def test_a_graph_is_refused_where_torch_has_no_such_op() -> None:
    with pytest.raises(wir.WrapperIRError, match="no op for switches"):
        wir.emit(choices(("i64", 3)), "fx")
