"""Loops of emitted programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["run_while", "run_while_stacked"]

Values = tuple[Any, ...]


def run_while(
    condition: Callable[..., Values],
    body: Callable[..., Values],
    carried: Values,
    captured: Values,
) -> Values:
    """Run ``body`` as long as ``condition`` gives true, and return the carried values.

    Args:
        condition: Takes carried and captured values, returns a tuple of one truth value or tensor.
        body: Takes the same, returns the new carried values.
        carried: The first carried values.
        captured: What both take besides.

    The results are tensors of their own even when the body never ran.
    """
    values = carried
    while condition(*values, *captured)[0]:
        values = body(*values, *captured)
    given = [*carried, *captured]
    return tuple(_own(value, given) for value in values)


def run_while_stacked(
    condition: Callable[..., Values],
    body: Callable[..., Values],
    carried: Values,
    captured: Values,
) -> Values:
    """Like :func:`run_while`; returns the values after each round, stacked in a new dimension 0.

    Where there is no round, the first values are the only row.
    """
    rounds: list[Values] = []
    values = carried
    while condition(*values, *captured)[0]:
        values = body(*values, *captured)
        rounds.append(values)
    rounds = rounds or [carried]
    return tuple(_stacked([each[n] for each in rounds]) for n in range(len(carried)))


def _own(value: object, given: Sequence[object]) -> object:
    if isinstance(value, Tensor) and any(value is other for other in given):
        return value.clone()
    return value


def _stacked(values: list[Any]) -> Tensor:
    return torch.stack(values) if isinstance(values[0], Tensor) else torch.tensor(values)
