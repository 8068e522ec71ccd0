"""Loaded programs as ordinary functions: what torch.compile does around a boxed call."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from wrapper_ir.analysis.liveness import mutated_inputs
from wrapper_ir.runtime import InputCountError, NoOutError
from wrapper_ir.runtime._private import any_autocast_enabled, no_autocast

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wrapper_ir.lines.program import Program

__all__ = ["as_function"]


def as_function(
    boxed: Callable[..., tuple[Any, ...]],
    program: Program,
    *,
    takes_out: bool = False,
    note: Callable[[Exception], None] | None = None,
) -> Callable[..., tuple[Any, ...]]:
    """``function(*inputs) -> tuple of results`` for a call that takes a list and empties it.

    Autograd is off inside, and so is autocast: the program was made for the dtypes that it names.
    Autograd is told which inputs were written to: a stale saved value is then an error.

    Args:
        boxed: The call.
        program: The program that it runs, whose name the function has.
        takes_out: Whether it takes memory for results, as ``out``.
        note: Called with what it raises.
    """
    name, count, mutated = program.name, len(program.inputs), mutated_inputs(program)
    is_grad_enabled = torch.is_grad_enabled

    def run(*inputs: object, out: Sequence[Any] | None = None) -> tuple[Any, ...]:
        if len(inputs) != count:
            raise InputCountError(expected=count, got=len(inputs))
        if out is not None and not takes_out:
            raise NoOutError(program=name)
        call = boxed if out is None else partial(boxed, out=out)
        try:
            if any_autocast_enabled():
                with torch.no_grad(), no_autocast():
                    return call([*inputs])
            if is_grad_enabled():
                with torch.no_grad():
                    return call([*inputs])
            return call([*inputs])
        except Exception as error:
            if note is not None:
                note(error)
            raise
        finally:
            for position in mutated:
                tensor = inputs[position]
                if isinstance(tensor, torch.Tensor) and not tensor.is_inference():
                    torch.autograd.graph.increment_version(tensor)

    run.__name__ = run.__qualname__ = name if name.isidentifier() else "program"
    run.__doc__ = f"Run the program '{name}' on its {count} inputs; gives a tuple of its results."
    return run
