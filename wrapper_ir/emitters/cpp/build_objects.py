"""Objects of a program as bytes that its library makes them from: PyTorch's own archives of them.

They lie in the blob of constants, behind those of tensors. How long they are is not known before
they are made, so the library is told by a table of its own (``wir_object_places``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from wrapper_ir.emitters.cpp.build_errors import ConstantValueError
from wrapper_ir.emitters.cpp.constants import aligned
from wrapper_ir.runtime import InputLayoutError, check_object
from wrapper_ir.runtime.objects import ObjectStateError, archive_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wrapper_ir.lines.program import Program

__all__ = ["Place", "object_archives", "places_of", "places_text"]


class Place(NamedTuple):
    """Where the bytes of an object lie in the blob."""

    offset: int
    size: int

    @property
    def end(self) -> int:
        """The place behind them."""
        return self.offset + self.size


def object_archives(program: Program) -> tuple[bytes, ...]:
    """Returns the bytes of each object of a program, in its order.

    Raises:
        ConstantValueError: One is missing, of another class, or of a class whose objects cannot be
            stored.
    """
    return tuple(_archive(program, name) for name in program.objects)


def _archive(program: Program, name: str) -> bytes:
    item = program.objects[name]
    shown = item.qualified_name or name
    if name not in program.data:
        raise ConstantValueError(name=shown, reason="the program holds no value for it")
    try:
        check_object(program.data[name], shown, item.class_name)
        return archive_of(program.data[name])
    except InputLayoutError as error:
        reason = "expected {expected}, got {got}".format_map(error.fields)
        raise ConstantValueError(name=shown, reason=reason) from error
    except ObjectStateError as error:
        reason = f"an object of class {item.class_name}: {error}"
        raise ConstantValueError(name=shown, reason=reason) from error


def places_of(archives: Sequence[bytes], start: int) -> tuple[Place, ...]:
    """Returns where the bytes of objects lie, the first behind ``start`` bytes of tensors."""
    places: list[Place] = []
    for archive in archives:
        places.append(Place(aligned(start), len(archive)))
        start = places[-1].end
    return tuple(places)


def places_text(places: Sequence[Place]) -> str:
    """Returns the assembly by which a library knows these places, nothing where there are none."""
    if not places:
        return ""
    rows = "".join(f"\t.quad {place.offset}, {place.size}\n" for place in places)
    return f"""\
\t.section .rodata.wir_object_places,"a"
\t.balign 8
\t.globl wir_object_places
\t.hidden wir_object_places
wir_object_places:
{rows}"""
