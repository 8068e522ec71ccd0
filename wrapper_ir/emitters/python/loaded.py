"""An emitted module as an ordinary function: what torch.compile does around ``call``."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from wrapper_ir.analysis.storage import mutated_inputs
from wrapper_ir.emitters.cuda_graphs.capture import hand_graphs_on
from wrapper_ir.emitters.functions import bump_versions, present
from wrapper_ir.runtime import InputCountError, NoOutError
from wrapper_ir.runtime._private import any_autocast_enabled, no_autocast

if TYPE_CHECKING:
    import types
    from collections.abc import Callable, Sequence

    from wrapper_ir.emitters.writer import SourceMap
    from wrapper_ir.lines.program import Program


def as_function(
    module: types.ModuleType,
    program: Program,
    source_map: SourceMap,
    *,
    takes_out: bool = False,
) -> Callable[..., tuple[Any, ...]]:
    """``function(*inputs) -> tuple of results`` for a module with a boxed ``call``.

    Autograd is off inside, and so is autocast: the program was made for the dtypes that it names.

    Args:
        module: The module.
        program: What it was made from.
        source_map: For notes on errors: which line of the program failed.
        takes_out: Whether ``call`` takes memory for results.
    """
    name, count, mutated = program.name, len(program.inputs), mutated_inputs(program)
    plain_call: Callable[..., tuple[Any, ...]] = module.call
    is_grad_enabled = torch.is_grad_enabled
    filename = module.__file__

    def run(*inputs: object, out: Sequence[Any] | None = None) -> tuple[Any, ...]:
        if len(inputs) != count:
            raise InputCountError(expected=count, got=len(inputs))
        if out is not None and not takes_out:
            raise NoOutError(program=name)
        call = plain_call if out is None else partial(plain_call, out=out)
        try:
            if any_autocast_enabled():
                with torch.no_grad(), no_autocast():
                    return call([*inputs])
            if is_grad_enabled():
                with torch.no_grad():
                    return call([*inputs])
            return call([*inputs])
        except Exception as error:
            _note_place(error, filename, source_map)
            raise
        finally:
            if mutated:
                bump_versions([inputs[position] for position in mutated])

    present(run, program)
    run.module = module  # type: ignore[attr-defined]
    run.release = release_of(module)  # type: ignore[attr-defined]
    hand_graphs_on(module, run)
    return run


def release_of(module: types.ModuleType) -> Callable[[], int]:
    """Return what frees the memory that a module keeps between calls; of most there is none."""
    release: Callable[[], int] = getattr(module, "release", lambda: 0)
    return release


def _note_place(error: Exception, filename: str | None, source_map: SourceMap) -> None:
    """Adds to an error which line of the program was running."""
    place = None
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == filename:
            place = source_map.path_at(trace.tb_lineno) or place
        trace = trace.tb_next
    if place is not None:
        error.add_note(f"while running {place} of the program")
