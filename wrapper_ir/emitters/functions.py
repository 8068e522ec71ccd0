"""Loaded programs as ordinary functions: what torch.compile does around a boxed call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wrapper_ir.analysis.liveness import mutated_inputs
from wrapper_ir.runtime.calls import plain_function

if TYPE_CHECKING:
    from collections.abc import Callable

    from wrapper_ir.lines.program import Program

__all__ = ["as_function"]


def as_function(
    boxed: Callable[..., tuple[Any, ...]],
    program: Program,
    *,
    takes_out: bool = False,
    note: Callable[[Exception], None] | None = None,
) -> Callable[..., tuple[Any, ...]]:
    """Return :func:`wrapper_ir.runtime.calls.plain_function` of a program's boxed call.

    Args:
        boxed: The call.
        program: The program that it runs, which gives the function its name.
        takes_out: Whether it takes memory for results, as ``out``.
        note: Called with each exception that it raises.
    """
    count, writes = len(program.inputs), mutated_inputs(program)
    return plain_function(
        boxed, name=program.name, inputs=count, writes=writes, takes_out=takes_out, note=note
    )
