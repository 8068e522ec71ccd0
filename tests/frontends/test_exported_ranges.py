"""Exported ranges are the program's ranges, whatever Inductor assumed on the way."""

from __future__ import annotations

import pytest
import torch

import wrapper_ir as wir


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
