"""What loading a program takes: the values of its constants, and an ordinary function around it.

The values of folded constants are computed when the program is loaded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wrapper_ir.emitters.base import MissingConstantError
from wrapper_ir.emitters.registry import make_emitter

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
    # Calling needs torch, which emitting does not, and a module from a cache needs no analysis.
    from wrapper_ir.analysis.liveness import mutated_inputs  # noqa: PLC0415 - see above
    from wrapper_ir.analysis.process_groups import named_groups  # noqa: PLC0415 - see above
    from wrapper_ir.runtime.calls import plain_function  # noqa: PLC0415

    return plain_function(
        boxed,
        name=program.name,
        inputs=len(program.inputs),
        writes=mutated_inputs(program),
        takes_out=takes_out,
        note=note,
        groups=named_groups(program),
    )


def constant_values(program: Program) -> dict[str, Any]:
    """Return the values of a program's constants, tensors and objects alike, by name.

    Raises:
        MissingConstantError: Some have no value.
    """
    check_values(program)
    values = {**folded_values(program), **program.data}
    return {name: values[name] for name in (*program.constants, *program.objects)}


def check_values(program: Program) -> None:
    """Check that a program's constants and objects have values, or are computed from others.

    Raises:
        MissingConstantError: Some have no value.
    """
    names = (*program.constants, *program.objects)
    missing = [n for n in names if n not in program.data and n not in program.folded]
    if missing:
        listed = ", ".join(f"'{name}'" for name in missing)
        raise MissingConstantError(program=program.name, names=listed)


def folded_values(program: Program) -> dict[str, Any]:
    """Return the values of a planned program's folded constants, computed from the others."""
    if program.folding is None:
        return {}
    sources = program.folding_sources.items()
    data = {name: program.data[source] for name, source in sources}
    run = make_emitter("python", {}).emit(program.folding.replace(data=data)).load()
    return dict(zip(program.folded, run(), strict=True))
