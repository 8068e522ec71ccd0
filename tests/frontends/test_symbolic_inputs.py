"""Inputs with symbolic sizes, strides and offsets, as stock Inductor takes them; no kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor
from torch.utils import _pytree as pytree

import wrapper_ir as wir
from tests.frontends.flows import normal
from tests.frontends.support import DYNAMIC
from tests.frontends.test_control_flow import same
from tests.frontends_aten.support import Function
from wrapper_ir.lines import ScalarInput
from wrapper_ir.runtime import InputLayoutError

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [
    # Stock Inductor forks compile workers from a process that has threads.
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]


def product(x: Tensor, y: Tensor) -> Any:
    return x @ y, x.shape[0] * 2, y.stride(0)


def shifted(x: Tensor) -> Any:
    return x[1:-1], x[2:], x.storage_offset() + 1  # as_strided is wrong in stock of torch 2.11


def ordered(x: Tensor) -> Any:
    return x.sort(), x.shape[0] * x.shape[1]


CASES: dict[str, tuple[Callable[..., Any], Callable[[], list[tuple[Tensor, ...]]]]] = {
    "strides": (
        product,
        lambda: [
            (normal(5, 12)[:, :7], normal(7, 8)[:, :3]),
            (normal(6, 14)[:, :9], normal(9, 20)[:, 4:9]),
            (normal(9, 6).t(), normal(9, 4)),
        ],
    ),
    "offsets": (shifted, lambda: [(normal(20)[3:9],), (normal(30)[5:17],)]),
    "sizes": (ordered, lambda: [(normal(3, 4)[1:],), (normal(7, 9)[2:, 1:],)]),
}


def outcomes(name: str, backend: str, **options: object) -> list[Any]:
    """Results, whether they share memory with arguments, and arguments after each call."""
    function, calls = CASES[name]
    torch._dynamo.reset()
    compiled = torch.compile(
        function, backend=backend, fullgraph=True, dynamic=True, options=options or None
    )
    found = []
    for args in calls():
        results = pytree.tree_leaves(compiled(*args))
        tensors = [each for each in results if isinstance(each, Tensor)]
        shared = [
            t.untyped_storage().data_ptr() == args[0].untyped_storage().data_ptr() for t in tensors
        ]
        offsets = [t.storage_offset() for t in tensors]
        found.append((results, shared, offsets, list(args)))
    return found


@pytest.mark.parametrize("name", CASES)
def test_they_are_taken_as_stock_takes_them(name: str) -> None:
    stock = outcomes(name, "inductor")
    for emitter in ("python", "fx"):
        with wir.record() as programs:
            ours = outcomes(name, "wrapper_ir", emitter=emitter)
        assert same(ours, stock)
        assert any(program.symbols for program in programs)
        for program in programs:
            assert wir.parse(str(program)) == program


def test_numbers_are_called_as_the_model_calls_them() -> None:
    """Torch calls one that may vary ``s77``; a name that something else has stays torch's."""

    def function(x: Tensor, times: int, way: str, s0: int) -> Tensor:
        return x * times + s0 if way == "up" else x

    exported = torch.export.export(
        Function(function),
        (torch.ones(4), 3, "up", 5),
        dynamic_shapes={"x": None, "times": DYNAMIC, "way": None, "s0": DYNAMIC},
    )
    for program in (wir.capture(exported), wir.from_fx(exported)):
        names = [each.symbol for each in program.inputs if isinstance(each, ScalarInput)]
        assert names == ["times", "s0"]
        (result,) = wir.interpret(program, torch.ones(4), 7, 2)
        assert result.tolist() == [9.0] * 4
        with pytest.raises(InputLayoutError, match="'times' has the wrong type"):
            wir.compile(program)(torch.ones(4), 1.5, 2)
