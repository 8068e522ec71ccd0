"""State that all checks share: the program, the current place, and the faults so far."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

from wrapper_ir.analysis.proof import Facts
from wrapper_ir.lines import (
    BufferInput,
    Path,
    Region,
    ScalarInput,
    effects,
    regions_of,
)
from wrapper_ir.verify.choices import Choices
from wrapper_ir.verify.diagnostics import Diagnostic

if TYPE_CHECKING:
    from collections.abc import Collection, Container

    from wrapper_ir.lines import Origin, Program
    from wrapper_ir.verify.rules import Rule

_MOST_NAMES_TO_COMPARE: Final = 2000
"""Looking for the nearest name costs time for each name; above this many no suggestion is made."""

_MOST_SUGGESTIONS: Final = 20
"""So many a program: they cost far more than finding the fault."""

_BEFORE: Final = -1
_BEHIND: Final = 1 << 62


@dataclass(slots=True, eq=False)
class Frame:
    """One region on its way through the verifier."""

    region: Region
    name: str
    holder: Place | None = None
    """The line that holds the region; ``None`` for the program's own body."""
    depth: int = 0
    rank: int = 0
    """Position among the regions of its line."""
    active: bool = True
    """Whether the region is being looked at: what it binds is visible only then."""

    def path(self, index: int) -> Path:
        """The path of a line of this region."""
        holder = Path() if self.holder is None else self.holder.path
        return holder.then(self.name, index)


class Place(NamedTuple):
    """A line, or a part of a region or program; cheap to make, a path only when it is shown."""

    frame: Frame
    at: int | None
    """Index of the line; ``None`` where the part is of the region itself."""
    part: str = ""

    @property
    def path(self) -> Path:
        """The line's path; that of the line which holds the region where no line is meant."""
        if self.at is not None:
            return self.frame.path(self.at)
        return Path() if self.frame.holder is None else self.frame.holder.path

    @property
    def full_part(self) -> str:
        """The part, with the region's name before it where it is a part of an inner region."""
        if self.at is None and self.frame.holder is not None:
            return f"{self.frame.name}.{self.part}"
        return self.part

    @property
    def order(self) -> tuple[int, ...]:
        """Sorts places in the order of the program's text: inputs, lines, results."""
        last = self.at
        if last is None:
            last = _BEHIND if self.part.startswith("results") else _BEFORE
        holder = () if self.frame.holder is None else self.frame.holder.order
        return (*holder, self.frame.rank, last)

    def __str__(self) -> str:
        path = str(self.path)
        return ".".join(filter(None, (path, self.full_part)))


class State:
    """The program, where the verifier is in it, and what it found."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.facts = Facts(program)
        self.root = Frame(program.region, "body")
        self.frame = self.root
        self.index: int | None = None
        #: The class of each object that is known so far.
        self.objects = {name: item.class_name for name, item in program.objects.items()}
        self._suggestions = _MOST_SUGGESTIONS
        self._found: dict[tuple[str, str, Place], tuple[tuple[int, ...], Diagnostic]] = {}

    def here(self, part: str = "") -> Place:
        """The line being looked at."""
        return Place(self.frame, self.index, part)

    def report(
        self, rule: Rule, *, place: Place | None = None, part: str = "", **fields: object
    ) -> None:
        """Notes a fault, by default at the line being looked at; the same one only once a place."""
        where = place or self.here(part)
        message = rule.template.format_map(fields)
        key = (rule.code, message, where)
        if key not in self._found:
            hint = rule.hint.format_map(fields)
            diagnostic = Diagnostic(
                rule, message, where.path, where.full_part, self._origin(where), hint
            )
            self._found[key] = (where.order, diagnostic)

    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """Everything found, in the order of the program."""
        found = sorted(self._found.values(), key=lambda item: item[0])
        return tuple(diagnostic for _, diagnostic in found)

    def _origin(self, place: Place) -> Origin | None:
        """Return the line's origin in the model; of a region's part, that of its line."""
        while place.at is None and place.frame.holder is not None:
            place = place.frame.holder
        if place.at is None:
            return None
        origin = place.frame.region.body[place.at].origin
        origins = self.program.origins
        return origins[origin] if origin is not None and 0 <= origin < len(origins) else None

    def later(self, name: str, names: Container[str]) -> str:
        """`` before this line`` where the name is defined somewhere else."""
        return " before this line" if name in names else ""

    def near(self, name: str, names: Collection[str]) -> str:
        """A suggestion for a name that does not exist, or nothing."""
        if name in names or len(names) > _MOST_NAMES_TO_COMPARE or not self._suggestions:
            return ""
        self._suggestions -= 1
        found = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
        return f"; did you mean {found[0]!r}?" if found else ""

    @cached_property
    def choices(self) -> Choices:
        """A few choices of the symbols; made where the first symbolic slice asks for them."""
        return Choices(self.program, self.facts)

    @cached_property
    def buffer_names(self) -> dict[str, None]:
        """Every buffer that something in the program defines, in order."""
        return self._names[0]

    @cached_property
    def kernel_names(self) -> dict[str, None]:
        """Every kernel that something in the program declares, in order."""
        return self._names[1]

    @cached_property
    def symbol_names(self) -> dict[str, None]:
        """Every symbol that something in the program binds, in order."""
        return self._names[2]

    @cached_property
    def _names(self) -> tuple[dict[str, None], dict[str, None], dict[str, None]]:
        buffers: dict[str, None] = dict.fromkeys(self.program.constants)
        kernels: dict[str, None] = {}
        symbols: dict[str, None] = {}
        todo = [self.program.region]
        while todo:
            region = todo.pop()
            for item in region.params:
                if isinstance(item, BufferInput):
                    buffers[item.name] = None
                elif isinstance(item, ScalarInput):
                    symbols[item.symbol] = None
            for line in region.body:
                found = effects(line, self.program)
                buffers.update(dict.fromkeys(found.defines))
                symbols.update(dict.fromkeys(found.defines_symbols))
                kernels.update(dict.fromkeys(found.declares))
                todo.extend(inner for _, inner in regions_of(line))
        return buffers, kernels, symbols
