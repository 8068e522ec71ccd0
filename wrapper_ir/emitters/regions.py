"""State of a renderer that goes through a region, and the beginning of the program's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wrapper_ir.lines.control import BufferInput, ScalarInput
from wrapper_ir.lines.expr import free_symbols
from wrapper_ir.lines.kernels import KernelDefinition
from wrapper_ir.lines.program import Program
from wrapper_ir.lines.symbols import (
    AssertLayout,
    AssertSymbol,
    BindSymbol,
    ComputeSymbol,
    ItemOf,
    SizeOf,
    StrideOf,
)
from wrapper_ir.lines.trace import Comment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wrapper_ir.lines.program import AnyLine, Origin


# A program's beginning: lines that declare, remark, and bind symbols to its inputs' metadata.
#
# Emitters write the checks of inputs around these lines: what is fixed is compared before them,
# what depends on symbols after them. Which lines they are is a fact of the program, the same
# everywhere.


@dataclass(frozen=True, slots=True)
class Beginning:
    """The first lines of a program.

    Attributes:
        program: The program.
        end: Index of the first line that is not part of the beginning.
        symbols: Symbols that have values by then.
        binds: Which symbol each size or stride binds, by buffer, ``SizeOf`` or ``StrideOf``, and
            dimension.
        bound: The symbols that metadata binds, in program order.
    """

    program: Program
    end: int
    symbols: frozenset[str]
    binds: Mapping[tuple[str, str, int], str]
    bound: tuple[str, ...]

    def knows(self, name: str) -> bool:
        """Tell whether all that the layout of a buffer mentions has a value at the end."""
        return self.program.layout(name).symbols <= self.symbols

    def leaves(self, name: str) -> bool:
        """Tell whether some size or stride of an input is neither fixed nor what binds a symbol."""
        layout = self.program.layout(name)
        pairs = (("SizeOf", layout.size), ("StrideOf", layout.stride))
        return any(
            free_symbols(value) and self.binds.get((name, kind, position)) != str(value)
            for kind, values in pairs
            for position, value in enumerate(values)
        )

    def places(self, symbol: str) -> list[str]:
        """Return what binds a symbol, in words: ``size 0 of 'x'``."""
        return [
            f"{'size' if kind == 'SizeOf' else 'stride'} {position} of '{buffer}'"
            for (buffer, kind, position), of in self.binds.items()
            if of == symbol
        ]


def find_beginning(program: Program) -> Beginning:
    """The lines that a program begins with."""
    inputs = {param.name for param in program.inputs if isinstance(param, BufferInput)}
    symbols = {param.symbol for param in program.inputs if isinstance(param, ScalarInput)}
    binds: dict[tuple[str, str, int], str] = {}
    bound: list[str] = []
    end = len(program.body)
    for index, line in enumerate(program.body):
        if not _is_beginning(line, inputs):
            end = index
            break
        if isinstance(line, BindSymbol):
            bound.append(line.symbol)
            if isinstance(line.source, (SizeOf, StrideOf)):
                binds[line.source.buffer, type(line.source).__name__, line.source.dim] = line.symbol
        if isinstance(line, (BindSymbol, ComputeSymbol)):
            symbols.add(line.symbol)
    return Beginning(program, end, frozenset(symbols), binds, tuple(bound))


def _is_beginning(line: AnyLine, inputs: set[str]) -> bool:
    if isinstance(line, BindSymbol):
        return not isinstance(line.source, ItemOf) and line.source.buffer in inputs
    if isinstance(line, AssertLayout):
        return line.buffer in inputs
    return isinstance(line, (KernelDefinition, Comment, ComputeSymbol, AssertSymbol))


# State of a renderer that goes through a region, whatever the target.


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
