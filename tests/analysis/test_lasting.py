"""Which results have memory that the program may use in later calls."""

from __future__ import annotations

import torch

import wrapper_ir as wir
from tests.build.test_objects import TEXT
from wrapper_ir.analysis.liveness import StorageMap


def _lasting(program: wir.Program) -> list[int]:
    return sorted(StorageMap(program).lasting_results(program))


def test_views_and_possible_views_of_constants_last() -> None:
    b = wir.Builder("views")
    x = b.input("x", "f32", (6,))
    constant = b.constant("c", torch.ones(6))
    view = b.reinterpret(constant, size=(2, 3), stride=(3, 1))
    likely = b.extern(
        "aten::contiguous(Tensor(a) self, *, MemoryFormat memory_format=contiguous_format)"
        " -> Tensor(a)",
        constant,
        result=x,
    )
    fresh = b.extern(
        "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", x, x, result=x
    )
    b.returns(x, constant, view, likely, fresh, fresh)
    assert _lasting(b.build()) == [1, 2, 3]


def test_what_an_object_returns_or_holds_lasts() -> None:
    assert _lasting(wir.parse(TEXT)) == [0]
