"""The values of a program's constants when it is loaded; those of folded ones are computed then."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wrapper_ir.emitters.base import MissingConstantError
from wrapper_ir.emitters.registry import make_emitter

if TYPE_CHECKING:
    from wrapper_ir.lines.program import Program


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
