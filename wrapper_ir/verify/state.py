"""State shared by all checks: the program, the current place, the faults, names and storage.

A buffer is a view of a :class:`Storage`. All aliases share one storage object, so ending it ends
all of them at once. The cost of a line depends only on the names that it mentions.
"""

from __future__ import annotations

import difflib
import enum
from bisect import bisect_left
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import wrapper_ir.lines as ir
from wrapper_ir.analysis.devices import declared_devices
from wrapper_ir.analysis.proof import Facts
from wrapper_ir.verify.diagnostics import Diagnostic

if TYPE_CHECKING:
    from collections.abc import Collection, Container, Iterator

    from wrapper_ir.verify.rules import Rule

_MOST_NAMES_TO_COMPARE: Final = 2000
"""The most names among which to look for a similar one, which takes time for each name."""

_MOST_SUGGESTIONS: Final = 20
"""The most suggestions for a program. They cost far more than finding the fault."""

_MOST_SYMBOLIC_PAIRS: Final = 64
"""The most slices that a symbolic slice is compared with, to stay linear."""

_BEFORE: Final = -1
_BEHIND: Final = 1 << 62


Span: TypeAlias = "tuple[int, int] | None"
"""Start and end of a range of bytes, equal for an empty range; None if unknown."""


@dataclass(slots=True, eq=False)
class Frame:
    """A region during verification."""

    region: ir.Region
    name: str
    holder: Place | None = None
    """The line that holds the region; ``None`` for the program's own body."""
    depth: int = 0
    rank: int = 0
    """Position among the regions of its line."""
    active: bool = True
    """True while the region is being checked. Its symbols are visible only then."""

    def path(self, index: int) -> ir.Path:
        """Return the path of a line of this region."""
        holder = ir.Path() if self.holder is None else self.holder.path
        return holder.then(self.name, index)


class Place(NamedTuple):
    """A line, or a part of a region or program. The path is computed only when it is shown."""

    frame: Frame
    at: int | None
    """Index of the line; ``None`` for a part of the region itself."""
    part: str = ""

    @property
    def path(self) -> ir.Path:
        """The path of the line, or else of the line that holds the region."""
        if self.at is not None:
            return self.frame.path(self.at)
        return ir.Path() if self.frame.holder is None else self.frame.holder.path

    @property
    def full_part(self) -> str:
        """The part, prefixed by the region's name if it is a part of an inner region."""
        if self.at is None and self.frame.holder is not None:
            return f"{self.frame.name}.{self.part}"
        return self.part

    @property
    def order(self) -> tuple[int, ...]:
        """A sort key for the order of the program's text: inputs, lines, results."""
        last = self.at
        if last is None:
            last = _BEHIND if self.part.startswith("results") else _BEFORE
        holder = () if self.frame.holder is None else self.frame.holder.order
        return (*holder, self.frame.rank, last)

    def __str__(self) -> str:
        return ".".join(filter(None, (str(self.path), self.full_part)))


class State:
    """The program, the current place in it, and the faults found."""

    def __init__(self, program: ir.Program) -> None:
        self.program = program
        self.facts: Facts = Facts(program)
        self.root: Frame = Frame(program.region, "body")
        self.frame: Frame = self.root
        self.index: int | None = None
        #: The classes of the objects defined so far.
        self.objects: dict[str, str] = {
            name: item.class_name for name, item in program.objects.items()
        }
        self.devices: frozenset[ir.Device] = declared_devices(program)
        self._suggestions = _MOST_SUGGESTIONS
        self._found: dict[tuple[str, str, Place], tuple[tuple[int, ...], Diagnostic]] = {}

    def here(self, part: str = "") -> Place:
        """Return the place of the current line."""
        return Place(self.frame, self.index, part)

    def report(
        self,
        rule: Rule,
        *,
        place: Place | None = None,
        part: str = "",
        about: Place | None = None,
        **fields: object,
    ) -> None:
        """Record a fault, by default at the current line. Duplicates are dropped.

        If the place has no origin in the model, such as a result, that of ``about`` is named.
        """
        where = place or self.here(part)
        message = rule.template.format_map(fields)
        key = (rule.code, message, where)
        if key not in self._found:
            origin = self._origin(where) or (about and self._origin(about))
            at = (where.path, where.full_part, origin)
            diagnostic = Diagnostic(rule, message, *at, rule.hint.format_map(fields))
            self._found[key] = (where.order, diagnostic)

    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """Return all diagnostics in the order of the program."""
        found = sorted(self._found.values(), key=lambda item: item[0])
        return tuple(diagnostic for _, diagnostic in found)

    def _origin(self, place: Place) -> ir.Origin | None:
        """Return the origin of a line, or of the line that holds a region."""
        while place.at is None and place.frame.holder is not None:
            place = place.frame.holder
        if place.at is None:
            return None
        return self.program.origin_of(place.frame.region.body[place.at])

    def later(self, name: str, names: Container[str]) -> str:
        """Return `` before this line`` if the name is defined somewhere else."""
        return " before this line" if name in names else ""

    def near(self, name: str, names: Collection[str]) -> str:
        """Return a suggestion for an unknown name; empty if there is none."""
        if name in names or len(names) > _MOST_NAMES_TO_COMPARE or not self._suggestions:
            return ""
        self._suggestions -= 1
        found = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
        return f"; did you mean {found[0]!r}?" if found else ""

    @cached_property
    def names(self) -> Names:
        """All names that the program defines."""
        names = Names(dict.fromkeys(self.program.constants), {}, {})
        todo = [self.program.region]
        while todo:
            region = todo.pop()
            for item in region.params:
                if isinstance(item, ir.BufferInput):
                    names.buffers[item.name] = None
                elif isinstance(item, ir.ScalarInput):
                    names.symbols[item.symbol] = None
            for line in region.body:
                found = ir.effects(line, self.program)
                names.buffers.update(dict.fromkeys(found.defines))
                names.symbols.update(dict.fromkeys(found.defines_symbols))
                names.kernels.update(dict.fromkeys(found.declares))
                todo.extend(inner for _, inner in ir.regions_of(line))
        return names


class Names(NamedTuple):
    """Names of buffers, kernels and symbols in order of definition."""

    buffers: dict[str, None]
    kernels: dict[str, None]
    symbols: dict[str, None]


# Memory: names, and the storage behind them.


class Kind(enum.Enum):
    """Kind of a storage by its owner."""

    OWNED = "owned"
    INPUT = "an input that the caller keeps"
    CONSTANT = "a constant"
    PARAM = "a parameter of the region"


class End(NamedTuple):
    """End of a storage: the place, and the buffer that took it over (empty if freed)."""

    place: Place
    taken_by: str = ""


@dataclass(slots=True, eq=False)
class Storage:
    """A piece of memory with its current owner."""

    owner: str
    kind: Kind
    place: Place
    capacity: ir.Dim | None = None
    """Size in bytes; ``None`` if the owner's layout is missing or unsound."""
    donated: bool = False
    realigned: int = 0
    mutable: bool = True
    root: Storage | None = None
    """The borrowed storage that this one reuses, for donated inputs and parameters."""
    space: PoolSpace | None = None
    """The slices, for a pool."""
    slot: Slot | None = None
    """The place in the pool, for a slice."""
    end: End | None = None
    given_up: End | None = None
    """The line that gave it up to a region. Only a free may follow."""
    written: bool = False
    blank: bool = False
    """True if the contents are certainly undefined: new, not zeroed, never written."""
    leaves: bool = False
    kept: bool = False
    """True if the memory may be kept for the next call."""
    allocation: str = ""
    """The buffer that was allocated, whose line says so."""
    held: bool = False
    """True if an object may hold it and access it at any time."""
    for_peers: bool = False
    """True if it is allocated as memory that peers address."""
    escapes: bool = False
    """True if it is passed to regions or third-party ops, which may hold on to it."""

    @property
    def first(self) -> Storage:
        """The storage before any reuse."""
        return self.root or self


Storages: TypeAlias = tuple[Storage, ...]


@dataclass(slots=True, eq=False)
class Buffer:
    """A defined buffer: its storage, and where it is visible."""

    name: str
    frame: Frame
    place: Place
    layout: ir.Layout | None
    storages: Storages
    """Usually one; several if it may be a view of several arguments; none for a faulty one."""
    owns: bool = False
    is_certain: bool = True
    """False if the buffer only may be a view of these."""
    is_global: bool = False
    pending: frozenset[str] = field(default_factory=frozenset)
    """Symbols of the layout that may be bound after the definition."""


# The slices of a pool.


@dataclass(slots=True, eq=False)
class Slot:
    """Bytes ``start`` to ``end`` of a pool, and the storage there."""

    start: ir.Dim
    end: ir.Dim
    storage: Storage
    pool: Storage
    spans: tuple[Span, ...] = ()
    """Start and end for each of a few choices of the symbols; empty in regions."""

    @property
    def is_static(self) -> bool:
        """True if both ends are constants."""
        return type(self.start) is int and type(self.end) is int

    def span(self, choice: int) -> Span:
        """Return start and end for one of the choices, if known."""
        if self.is_static:
            return self.start, self.end
        return self.spans[choice] if choice < len(self.spans) else None

    def hand_on(self, heir: Storage | None) -> None:
        """Pass the place to the storage that takes over, or release it."""
        if heir is not None:
            self.storage = heir
        elif self.pool.space is not None:
            self.pool.space.remove(self)


class PoolSpace:
    """The live slices of one pool.

    Slices with constant offsets are sorted and do not overlap, so a new one is compared with its
    neighbours only.
    """

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._static: list[Slot] = []
        self._symbolic: dict[Slot, None] = {}
        self._empty: dict[Slot, None] = {}
        """Empty slices. They overlap with nothing, but must end before the pool too."""

    def __len__(self) -> int:
        """Return the number of live slices."""
        return len(self._static) + len(self._symbolic) + len(self._empty)

    def alive(self) -> Iterator[Storage]:
        """Yield the storages of all live slices."""
        for slot in (*self._static, *self._symbolic, *self._empty):
            yield slot.storage

    def overlapping(self, slot: Slot, facts: Facts) -> Slot | None:
        """Return a live slice that provably overlaps ``slot``, if any."""
        if not slot.is_static:
            others = (*self._symbolic, *self._static)[-_MOST_SYMBOLIC_PAIRS:]
            return next((o for o in others if _overlap(slot, o, facts)), None)
        at = bisect_left(self._starts, slot.start)
        symbolic = tuple(self._symbolic)[-_MOST_SYMBOLIC_PAIRS:]
        others = (*self._static[max(at - 1, 0) : at + 1], *symbolic)
        return next((o for o in others if _overlap(slot, o, facts)), None)

    def add(self, slot: Slot) -> None:
        """Add a live slice."""
        if not slot.is_static:
            self._symbolic[slot] = None
        elif slot.start == slot.end:
            self._empty[slot] = None
        else:
            at = bisect_left(self._starts, slot.start)
            self._starts.insert(at, slot.start)
            self._static.insert(at, slot)

    def remove(self, slot: Slot) -> None:
        """Remove a slice that ended."""
        self._symbolic.pop(slot, None)
        self._empty.pop(slot, None)
        if slot.is_static:
            at = bisect_left(self._starts, slot.start)
            while at < len(self._static) and self._static[at].start == slot.start:
                if self._static[at] is slot:
                    del self._static[at], self._starts[at]
                    return
                at += 1


def meeting(a: Slot, b: Slot) -> int | None:
    """Return the first choice of the symbols for which both share a byte, if any."""
    for choice in range(max(len(a.spans), len(b.spans))):
        one, other = a.span(choice), b.span(choice)
        if one is not None and other is not None and max(one[0], other[0]) < min(one[1], other[1]):
            return choice
    return None


def _overlap(a: Slot, b: Slot, facts: Facts) -> bool:
    """Return whether both provably share a byte for some choice or all values of symbols."""
    if a.is_static and b.is_static:
        return bool(a.start < b.end and b.start < a.end)
    if meeting(a, b) is not None:
        return True
    holds_bytes = facts.exceeds(a.end, a.start) and facts.exceeds(b.end, b.start)
    return holds_bytes and facts.exceeds(b.end, a.start) and facts.exceeds(a.end, b.start)
