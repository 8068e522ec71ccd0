"""Sizes at which Inductor would have chosen another way, equally right, run all the same."""

from __future__ import annotations

import io
import warnings
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

import wrapper_ir as wir
from wrapper_ir.frontends.inductor import LostSizesWarning
from wrapper_ir.lines.symbols import AssertSymbol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

AUTO = torch.export.Dim.AUTO


class Called(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: torch.Tensor) -> Any:
        return self.function(*args)


def exported(
    function: Callable[..., Any], *examples: torch.Tensor, dims: Sequence[dict[int, Any]]
) -> torch.export.ExportedProgram:
    """Export a function, with the dimensions of each argument that vary."""
    return torch.export.export(Called(function), examples, dynamic_shapes=(tuple(dims),))


def whole(*shape: int) -> torch.Tensor:
    """Return small whole numbers, whose sums are exact in any order."""
    return torch.randint(-3, 4, shape).float()


def relied_on(program: wir.Program) -> list[str]:
    """Return what the program checks of its inputs' sizes beyond their ranges."""
    return [line.message for line in program.body if isinstance(line, AssertSymbol)]


CASES: dict[str, tuple[Callable[..., Any], list[tuple[tuple[int, ...], ...]], list[dict[int, Any]]]]
CASES = {
    "a sum of few from many": (
        lambda x: x.sum(-1),
        [((3, 5000),), ((3, 7),), ((2, 4096),), ((4, 2),)],
        [{0: AUTO, 1: AUTO}],
    ),
    "a sum of many from few": (
        lambda x: x.sum(-1),
        [((3, 10),), ((3, 5000),), ((2, 100_000),)],
        [{0: AUTO, 1: AUTO}],
    ),
    "images": (
        lambda x: x.sum((2, 3)),
        [((2, 3, 8, 10),), ((2, 3, 65, 65),), ((3, 3, 224, 224),)],
        [{0: AUTO, 2: AUTO, 3: AUTO}],
    ),
    "a small product": (
        lambda x, y: x @ y,
        [((4, 1), (1, 5)), ((4, 1), (1, 17)), ((4, 1), (1, 300))],
        [{}, {1: AUTO}],
    ),
    "a large product": (
        lambda x, y: x @ y,
        [((4, 1), (1, 500)), ((4, 1), (1, 5))],
        [{}, {1: AUTO}],
    ),
    "a product and a sum": (
        lambda b, x, y: torch.addmm(b, x, y),
        [((8,), (1, 8), (8, 8)), ((40,), (1, 8), (8, 40))],
        [{0: AUTO}, {}, {1: AUTO}],
    ),
    "few candidates": (
        torch.isin,
        [((30,), (4,)), ((30,), (200,)), ((2000,), (3,))],
        [{0: AUTO}, {0: AUTO}],
    ),
    "many candidates": (
        torch.isin,
        [((30,), (40,)), ((30,), (2,)), ((2,), (3000,))],
        [{0: AUTO}, {0: AUTO}],
    ),
    "sorting": (lambda x: x.sort().values, [((10,),), ((40_000,),)], [{0: AUTO}]),
    "the order of strides": (
        lambda x: torch.nn.functional.avg_pool1d(x, 3, 3),
        [((2, 2, 12),), ((3, 2, 9),), ((2, 2, 60),)],  # torch 2.11 exports multiples of 3
        [{0: AUTO, 2: AUTO}],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_all_sizes_run_and_nothing_is_checked(case: str) -> None:
    function, shapes, dims = CASES[case]
    with warnings.catch_warnings():
        warnings.simplefilter("error", LostSizesWarning)
        program = wir.capture(exported(function, *(whole(*s) for s in shapes[0]), dims=dims))
    assert not [text for text in relied_on(program) if "Inductor" in text]
    run = wir.compile(program)
    for each in shapes:
        args = [whole(*shape) for shape in each]
        torch.testing.assert_close(run(*args)[0], function(*args))


def test_an_export_that_was_saved_runs_at_one() -> None:
    """Loaded, it has its declared range; in the trace a size is never 1."""
    dims = [{0: torch.export.Dim("rows", min=1)}, {}]
    made = exported(lambda x, y: (x + y) / (x * x).sum(1, keepdim=True), *_ROWS, dims=dims)
    file = io.BytesIO()
    torch.export.save(made, file)
    file.seek(0)
    program = wir.capture(torch.export.load(file))
    assert program == wir.capture(made)
    assert not relied_on(program)
    x, y = whole(1, 3) + 5, whole(3)
    torch.testing.assert_close(wir.compile(program)(x, y)[0], made.module()(x, y))


_ROWS = torch.ones(5, 3), torch.ones(3)


def test_what_code_relies_on_is_checked_and_named() -> None:
    """A diagonal is as long as the shorter side, and Inductor settles which one that is."""
    words = r"needs s\d+ <= s\d+, as Inductor assumed; .*size [01] of 'args_0'; .*size [01] of"
    with pytest.warns(LostSizesWarning, match=words):
        program = wir.capture(
            exported(lambda x: x.diagonal() + 1, whole(5, 7), dims=[{0: AUTO, 1: AUTO}])
        )
    run, x = wir.compile(program), whole(3, 4)
    torch.testing.assert_close(run(x)[0], x.diagonal() + 1)
    with pytest.raises(wir.WrapperIRError, match=r"(?s)as Inductor assumed, but .*recapture"):
        run(whole(4, 3))
