"""Exported ranges are the program's ranges, whatever Inductor assumed on the way."""

from __future__ import annotations

import pytest
import torch

import wrapper_ir as wir
from wrapper_ir.frontends.inductor import FixedSizeWarning


@pytest.fixture(scope="module")
def program() -> wir.Program:
    """A convolution: choosing its algorithm, torch compares the batch with 16."""
    model = torch.nn.Conv2d(3, 8, 3).eval()
    batch = torch.export.Dim("batch", min=2, max=64)
    return wir.capture(model, (torch.randn(4, 3, 8, 8),), dynamic_shapes=({0: batch},))


def test_the_range_is_the_exported_one(program: wir.Program) -> None:
    ranges = [(info.lower, info.upper) for info in program.symbols.values()]
    assert ranges == [(2, 64)]


def test_every_size_in_the_range_runs_and_no_other(program: wir.Program) -> None:
    run = wir.compile(program)
    for batch in (2, 15, 16, 64):
        x = torch.randn(batch, 3, 8, 8)
        weight, bias = program.data["weight"], program.data["bias"]
        (result,) = run(x)
        torch.testing.assert_close(result, torch.conv2d(x, weight, bias))
    for batch in (1, 65):
        with pytest.raises(wir.WrapperIRError, match=rf"2 <= s\d+ <= 64, but s\d+ is {batch}"):
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
