"""Models that reach the rarer lines of Inductor, run in every way but C++: all the same."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import wrapper_ir as wir
from tests.fuzz.compare import FAST, difference

X = torch.linspace(-2, 3, 24).reshape(6, 4)


class Select(nn.Module):
    """An element chosen by a number that is in a tensor, counted from the end if negative."""

    def forward(self, x: Tensor, i: Tensor) -> Tensor:
        return x[i.item()] + 1


class Slice(nn.Module):
    """A slice whose ends are in tensors, anywhere."""

    def forward(self, x: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return x[i.item() : j.item()] * 2


class Checked(nn.Module):
    """A size read from a tensor, asserted to be in a range."""

    def forward(self, x: Tensor, i: Tensor) -> Tensor:
        size = i.item()
        torch._check(size >= 2)
        torch._check(size <= 9)
        return torch.zeros(size) + x[0, 0]


class Split(nn.Module):
    """Sizes read as a list."""

    def forward(self, x: Tensor, sizes: Tensor) -> tuple[Tensor, Tensor]:
        a, b = sizes.tolist()
        torch._check(a >= 0)
        torch._check(b >= 0)
        torch._check(a + b == x.size(0))
        first, second = x.split([a, b])
        return first.sum(0), second * 2


class Found(nn.Module):
    """A result as large as the data say."""

    def forward(self, x: Tensor) -> Tensor:
        return x.nonzero().float().sum(0)


class Drawn(nn.Module):
    """Random numbers drawn in place."""

    def forward(self, p: Tensor) -> Tensor:
        return torch.empty_like(p).bernoulli_(p.sigmoid()) + 1


class Asserted(nn.Module):
    """An assertion on the data."""

    def forward(self, x: Tensor) -> Tensor:
        torch._assert_async(x.sum() < 1e9, "too big")
        return x * 2


def number(value: int) -> Tensor:
    return torch.tensor(value)


CASES: dict[str, tuple[nn.Module, list[Any]]] = {
    "select": (Select(), [X, number(2)]),
    "select_from_end": (Select(), [X, number(-2)]),
    "slice": (Slice(), [X, number(1), number(4)]),
    "slice_from_end": (Slice(), [X, number(-5), number(-1)]),
    "slice_of_nothing": (Slice(), [X, number(5), number(2)]),
    "checked": (Checked(), [X, number(4)]),
    "split": (Split(), [X, torch.tensor([2, 4])]),
    "split_of_nothing": (Split(), [X, torch.tensor([0, 6])]),
    "found": (Found(), [X]),
    "found_nothing": (Found(), [torch.zeros(6, 4)]),
    "drawn": (Drawn(), [X]),
    "asserted": (Asserted(), [X]),
}


@pytest.mark.parametrize("name", CASES)
def test_all_ways_agree(name: str) -> None:
    model, inputs = CASES[name]
    program = wir.capture(model, (*inputs,))
    assert difference(program, inputs, [*FAST]) == ""
    if name != "drawn":  # eager draws other numbers
        expected = model(*inputs)
        for a, b in zip(
            wir.interpret(program, *inputs),
            expected if isinstance(expected, tuple) else (expected,),
            strict=True,
        ):
            torch.testing.assert_close(a, b)


def test_an_assertion_fails_when_interpreted() -> None:
    model, (x, _) = CASES["checked"]
    program = wir.capture(model, (x, number(4)))
    with pytest.raises(wir.WrapperIRError) as caught:
        wir.interpret(program, x, number(11))
    assert caught.value.path is not None
