"""Loops over memory that they carry, which torch's op for loops does not allow.

A body of torch's op neither writes what it carries nor returns its inputs. Copies keep to that, but
writes to a copy are lost to everything else that shares the memory. These functions pass tensors
from round to round as they are. Torch cannot trace them into a graph.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wrapper_ir.runtime import run_while, run_while_stacked

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor


def loop_in_place(
    condition: Callable[..., Any],
    body: Callable[..., tuple[Tensor, ...]],
    carried: tuple[Tensor, ...],
    captured: tuple[Tensor, ...],
    shared: Sequence[int],
) -> tuple[Any, ...]:
    """Run a loop like :func:`wrapper_ir.runtime.run_while`, with graphs."""
    return run_while(_in_tuple(condition), body, carried, captured, shared)


def stacked_loop_in_place(
    condition: Callable[..., Any],
    body: Callable[..., tuple[Tensor, ...]],
    carried: tuple[Tensor, ...],
    captured: tuple[Tensor, ...],
) -> tuple[Any, ...]:
    """Run a loop like :func:`wrapper_ir.runtime.run_while_stacked`, with graphs."""
    return run_while_stacked(_in_tuple(condition), body, carried, captured)


def _in_tuple(condition: Callable[..., Any]) -> Callable[..., tuple[Any, ...]]:
    """Return a condition in the form that emitted Python has: it returns a tuple."""
    return lambda *args: (condition(*args),)
