"""Exported ranges are the program's ranges, whatever Inductor assumed on the way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch

import wrapper_ir as wir
from wrapper_ir.frontends.inductor import FixedSizeWarning

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor


@pytest.fixture(scope="module")
def program() -> wir.Program:
    """A convolution: choosing its algorithm, torch compares the batch with 16."""
    model = torch.nn.Conv2d(3, 8, 3).eval()
    batch = torch.export.Dim("batch", min=3, max=64)
    return wir.capture(model, (torch.randn(4, 3, 8, 8),), dynamic_shapes=({0: batch},))


def test_the_range_is_the_exported_one(program: wir.Program) -> None:
    ranges = [(info.lower, info.upper) for info in program.symbols.values()]
    assert ranges == [(3, 64)]


def test_every_size_in_the_range_runs_and_no_other(program: wir.Program) -> None:
    run = wir.compile(program)
    for batch in (3, 15, 16, 64):
        x = torch.randn(batch, 3, 8, 8)
        weight, bias = program.data["weight"], program.data["bias"]
        (result,) = run(x)
        torch.testing.assert_close(result, torch.conv2d(x, weight, bias))
    for batch in (2, 65):
        with pytest.raises(wir.WrapperIRError, match=rf"3 <= s\d+ <= 64, but s\d+ is {batch}"):
            run(torch.randn(batch, 3, 8, 8))


def test_sizes_that_inductor_fixes_are_named() -> None:
    """Its lowering of adaptive pools takes sizes as numbers, whatever the export has left free."""

    class Pooled(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(torch.nn.functional.adaptive_avg_pool2d(x, (2, 2)))

    def exported() -> torch.export.ExportedProgram:
        dims = {2: torch.export.Dim("h", min=4), 3: torch.export.Dim("w", min=4)}
        return torch.export.export(Pooled(), (torch.ones(2, 3, 8, 8),), dynamic_shapes=(dims,))

    words = r"size 2 of 'x' is 8, size 3 of 'x' is 8.*from_fx"
    with pytest.warns(FixedSizeWarning, match=words):
        program = wir.capture(exported())
    x = torch.randn(2, 3, 12, 10)
    with pytest.raises(wir.WrapperIRError, match=r"expected float32\[2, 3, 8, 8\]"):
        wir.interpret(program, x)
    free = wir.from_fx(exported())
    torch.testing.assert_close(wir.interpret(free, x)[0], Pooled()(x))


class Called(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x)


@pytest.mark.parametrize("dim", [torch.export.Dim.AUTO, torch.export.Dim("rows", min=2)])
def test_a_range_that_begins_at_two_has_no_lower_bound(dim: Any) -> None:
    """Torch begins at 2 because it traces with such sizes, and accepts 0 and 1 all the same."""
    model = Called(lambda x: torch.relu(x) @ x.new_ones(3, 4) + x.sum())
    exported = torch.export.export(model, (torch.randn(5, 3),), dynamic_shapes=({0: dim},))
    for program in (wir.from_fx(exported), wir.from_fx(exported.module()), wir.capture(exported)):
        assert [info.lower for info in program.symbols.values()] == [0]
        run = wir.compile(program)
        for rows in (0, 1, 2, 9):
            x = torch.randn(rows, 3)
            torch.testing.assert_close(run(x)[0], model(x))


@pytest.mark.parametrize(
    ("function", "least"),
    [
        (lambda x: x[0] * 2, 1),
        (lambda x: x[1] * 2, 2),
        (lambda x: x[-2] * 2, 2),
        (lambda x: x[:2] * 2, 2),
        (lambda x: x.reshape(-1)[:4] * 2, 2),
        (lambda x: torch.mm(x[1:2], x.t()), 2),
        (lambda x: torch.nn.functional.pad(x, (0, 0, 1, 2)) + 1, 0),
        (lambda x: torch.cat([x, x]) + x.sum(), 0),
        (lambda x: x.softmax(0), 0),
    ],
)
def test_sizes_at_which_code_would_leave_its_buffers_are_refused(
    function: Callable[[Tensor], Tensor], least: int
) -> None:
    rows = torch.export.Dim("rows")
    model = Called(function)
    program = wir.capture(model, (torch.randn(5, 3),), dynamic_shapes=({0: rows},))
    assert [info.lower for info in program.symbols.values()] == [least]
    run = wir.compile(program)
    for size in (0, 1, 2, 7):
        x = torch.randn(size, 3)
        if size < least:
            with pytest.raises(
                wir.WrapperIRError, match=rf"needs {least} <= s\d+, but s\d+ is {size}"
            ):
                run(x)
        else:
            torch.testing.assert_close(run(x)[0], function(x))


def test_what_a_branch_reads_counts() -> None:
    class Chosen(torch.nn.Module):
        def forward(self, x: torch.Tensor, flag: torch.Tensor) -> Any:
            return torch.cond(flag, lambda x: x[1] * 2, lambda x: x.sum(0), (x,))

    rows = {0: torch.export.Dim("rows")}
    args = (torch.randn(5, 3), torch.tensor(data=True))
    program = wir.capture(Chosen(), args, dynamic_shapes=(rows, None))
    assert [info.lower for info in program.symbols.values()] == [2]
