"""State of a renderer that goes through a region, whatever the target."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wrapper_ir.lines.origin import Origin
    from wrapper_ir.lines.program import AnyLine, Program


class Storages:
    """Buffers by the storage that they share or may share, in one function.

    A storage ends with the last reference to it, so ending it means ending all its buffers.

    Args:
        last: The last line that touches each buffer of the region.
        lasting: Buffers that no line ends.
    """

    def __init__(self, last: Mapping[str, int], lasting: frozenset[str] = frozenset()) -> None:
        self._last = last
        self._lasting = lasting
        self._groups: dict[str, list[str]] = {}

    def define(self, name: str, sources: Sequence[str] = ()) -> None:
        """Begin a buffer; ``sources`` are buffers whose storage it shares or may share."""
        group = [name]
        for source in sources:
            other = self._groups.get(source)
            if other is not None and other is not group:
                other.extend(group)
                for member in group:
                    self._groups[member] = other
                group = other
        self._groups[name] = group

    def sharing(self, name: str) -> Sequence[str]:
        """Return the buffers of a buffer's storage, itself included."""
        return self._groups.get(name, ())

    def end(self, name: str, index: int) -> list[str]:
        """End a storage at a line; return the buffers that nothing wants any more."""
        group = self._groups.get(name, [name])
        ended = [n for n in group if n not in self._lasting and self._last.get(n, -1) <= index]
        for member in ended:
            self._groups.pop(member, None)
        group[:] = [member for member in group if member not in ended]
        return ended


class Origins:
    """Tells where in the model lines come from, once for lines in a row from one place."""

    def __init__(self, program: Program) -> None:
        self._origins = program.origins
        self._told: int | None = None

    def news(self, line: AnyLine) -> Origin | None:
        """Return the origin of a line; None if it has none, or the line before has it."""
        number = line.origin
        if number is None or number == self._told or number >= len(self._origins):
            return None
        self._told = number
        return self._origins[number]


def described(origin: Origin, place: str) -> str:
    """Return an origin in one line of words, with the place in the source that stands for it."""
    parts = [origin.module] if origin.module else []
    parts += [", ".join(origin.ops or origin.nodes)] if origin.ops or origin.nodes else []
    text = ": ".join(parts)
    if place:
        text += f" ({place})"
    return text.strip()
