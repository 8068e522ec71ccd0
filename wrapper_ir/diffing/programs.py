"""The structural diff of two programs."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from typing import TYPE_CHECKING, Final, TypeVar

from wrapper_ir.diffing.fields import Fields
from wrapper_ir.diffing.figures import figures
from wrapper_ir.diffing.items import Items
from wrapper_ir.diffing.kernels import match_kernels
from wrapper_ir.diffing.keys import LEVELS, Keys, ProgramKeys
from wrapper_ir.diffing.model import (
    FieldChange,
    Kind,
    LineChange,
    ProgramDiff,
    RegionChange,
)
from wrapper_ir.diffing.sequences import Match, Matcher
from wrapper_ir.lines import KernelDefinition
from wrapper_ir.lines.given import as_program
from wrapper_ir.lines.rename import Renaming
from wrapper_ir.lines.walk import Path, regions_of
from wrapper_ir.text.line_print import LinePrinter

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from wrapper_ir.diffing.keys import BodyKeys
    from wrapper_ir.lines import AnyLine, Program, Region

__all__ = ["aligned", "diff"]

T = TypeVar("T")

#: How often lines are matched by lines that were matched before: so long may chains be.
_ROUNDS: Final = 3


def diff(before: Program, after: Program) -> ProgramDiff:
    """How two programs differ, by meaning: what things are called and come from does not count.

    Lines are matched by what they do and by what is around them. What is said of a line that was
    matched is what is not the same about it, given that its operands are the matched ones.

    Args:
        before: Any program, even a faulty one.
        after: Another one.
    """
    as_program(before, "wir.diff")
    as_program(after, "wir.diff")
    if before == after:
        count = figures(before)
        return ProgramDiff(count, count)
    return _Diff(before, after).made()


def aligned(before: Program, after: Program) -> Program:
    """The first program, under the second's names where both have the same thing.

    So texts that are emitted from the two differ where the programs do. What only the first has
    keeps its names, as far as the second does not use them.

    Args:
        before: The program to be renamed.
        after: Where the names come from.
    """
    return _Diff(before, after).aligned()


class _Diff:
    """One comparison."""

    def __init__(self, before: Program, after: Program) -> None:
        self._before = before
        self._after = after
        self._kernels = match_kernels(before, after)
        numbers_a, numbers_b = self._kernels.numbers()
        keys = Keys()
        self._keys = (ProgramKeys(before, keys, numbers_a), ProgramKeys(after, keys, numbers_b))
        #: Names of the first program to names of the second.
        self._buffers: dict[str, str] = {}
        self._symbols: dict[str, str] = {}
        self._kernel_names = {a.name: b.name for a, b in self._kernels.pairs}
        #: All that the first program gives names to.
        self._defined = {*before.buffers, *before.symbols, *before.kernels}
        self._fields = Fields(
            before,
            after,
            Renaming(
                lambda name: self._new_name(name, self._buffers),
                lambda name: self._new_name(name, self._kernel_names),
                lambda name: self._new_name(name, self._symbols),
            ),
        )
        self._items = Items(before, after, self._fields, self._buffers, self._symbols, self._keys)
        self._matches: dict[tuple[int, int], Match] = {}
        self._printers = (
            LinePrinter(before, origins=False, strict=False),
            LinePrinter(after, origins=False, strict=False),
        )

    def made(self) -> ProgramDiff:
        """Matches all there is, so that all names are known; then says what is not the same."""
        a, b = self._match_all()
        return ProgramDiff(
            figures(self._before),
            figures(self._after),
            (
                *self._items.params(a, b),
                *self._items.changes(),
                *self._items.results(a, b),
            ),
            tuple(self._kernels.changes(self._fields)),
            tuple(self._lines(a, b, Path(), Path(), "body")),
        )

    def aligned(self) -> Program:
        """The first program under the second's names."""
        self._match_all()
        after = self._after
        buffers = _completed(self._buffers, self._before.buffers, after.buffers)
        symbols = _completed(self._symbols, self._before.symbols, after.symbols)
        kernels = _completed(self._kernel_names, self._before.kernels, after.kernels)
        found = Renaming(
            lambda name: buffers.get(name, name),
            lambda name: kernels.get(name, name),
            lambda name: symbols.get(name, name),
        ).program(self._before)
        return found.replace(name=after.name)

    def _new_name(self, name: str, table: Mapping[str, str]) -> str:
        """What the second program calls it; no name at all for what the second has not.

        A name that means nothing in the first program, which is a fault, means nothing in both.
        """
        return table.get(name) or (f"-{name}" if name in self._defined else name)

    # Matching.

    def _match_all(self) -> tuple[Region, Region]:
        a, b = self._before.region, self._after.region
        self._items.match_constants()
        self._match(a, b)
        self._items.match_rest()
        return a, b

    def _match(self, a: Region, b: Region) -> None:
        """Matches two regions with all that is in them, and notes whose names are the same."""
        keys_a, keys_b = self._keys[0].body(a), self._keys[1].body(b)
        self._items.match_params(a, b)
        match = self._matches[id(a), id(b)] = _matched(a, b, keys_a, keys_b)
        for i, j in match.all:
            self._note(keys_a, keys_b, i, j)
            for (name, inner), (other, twin) in _twins(a.body[i], b.body[j]):
                if name == other:
                    self._match(inner, twin)

    def _note(self, keys_a: BodyKeys, keys_b: BodyKeys, i: int, j: int) -> None:
        old, new = keys_a.effects[i], keys_b.effects[j]
        self._buffers.update(zip(old.defines, new.defines, strict=False))
        self._buffers.update(zip(old.defines_objects, new.defines_objects, strict=False))
        self._symbols.update(zip(old.defines_symbols, new.defines_symbols, strict=False))

    # Saying what is not the same.

    def _lines(
        self, a: Region, b: Region, path_a: Path, path_b: Path, name: str
    ) -> Iterator[LineChange]:
        """The changes of a region's lines, in the order of the second program."""
        match = self._matches[id(a), id(b)]
        moved, added = set(match.moved), set(match.added)
        before: dict[int, list[int]] = defaultdict(list)
        for i in match.removed:
            before[_next(match, i, len(b.body))].append(i)
        pairs = {j: i for i, j in match.all}
        for j in range(len(b.body) + 1):
            for i in before[j]:
                text = self._printers[0].visit(a.body[i])
                yield LineChange(Kind.REMOVED, str(path_a.then(name, i)), text_before=text)
            if j in pairs:
                i = pairs[j]
                places = (path_a.then(name, i), path_b.then(name, j))
                yield from self._pair(a.body[i], b.body[j], places, is_moved=(i, j) in moved)
            elif j in added:
                text = self._printers[1].visit(b.body[j])
                yield LineChange(Kind.ADDED, after=str(path_b.then(name, j)), text_after=text)

    def _pair(
        self, old: AnyLine, new: AnyLine, places: tuple[Path, Path], *, is_moved: bool
    ) -> Iterator[LineChange]:
        fields = tuple(self._line_fields(old, new))
        regions = tuple(self._regions(old, new, places))
        if fields or regions or is_moved:
            kind = Kind.MOVED if is_moved else Kind.CHANGED
            texts = (self._printers[0].visit(old), self._printers[1].visit(new))
            yield LineChange(kind, str(places[0]), str(places[1]), *texts, fields, regions)

    def _line_fields(self, old: AnyLine, new: AnyLine) -> Iterator[FieldChange]:
        if type(old) is type(new):
            yield from self._fields.of(old, new)
        else:
            yield FieldChange("line", old.mnemonic, new.mnemonic)
        before, after = self._keys[0].effects(old).defines, self._keys[1].effects(new).defines
        for number, (first, second) in enumerate(zip(before, after, strict=False)):
            layouts = (self._before.buffers.get(first), self._after.buffers.get(second))
            for field in self._fields.layouts(*layouts):
                name = field.name if len(after) == 1 else f"results[{number}].{field.name}"
                yield FieldChange(name, field.before, field.after)

    def _regions(
        self, old: AnyLine, new: AnyLine, places: tuple[Path, Path]
    ) -> Iterator[RegionChange]:
        for (name, a), (other, b) in _twins(old, new):
            if name == other:
                items = (*self._items.params(a, b), *self._items.results(a, b))
                lines = tuple(self._lines(a, b, *places, name))
                if items or lines:
                    yield RegionChange(name, items, lines)


def _matched(a: Region, b: Region, keys_a: BodyKeys, keys_b: BodyKeys) -> Match:
    """Matches lines: alike with all around them first, then by less, then those that changed.

    Declarations are left out: kernels are matched by themselves.
    """
    rows_a, rows_b = _rows(a), _rows(b)

    def column(first: Sequence[T], second: Sequence[T]) -> tuple[list[T], list[T]]:
        return [first[i] for i in rows_a], [second[j] for j in rows_b]

    matcher = Matcher(len(rows_a), len(rows_b))

    def by_relations() -> None:
        known_a, known_b = {}, {}
        for number, (i, j) in enumerate(matcher.done().pairs):
            known_a[rows_a[i]] = known_b[rows_b[j]] = number
        matcher.in_order(*column(keys_a.relations(0, known_a), keys_b.relations(1, known_b)))

    levels = [column(keys_a.levels[n], keys_b.levels[n]) for n in range(LEVELS)]
    for level in levels[:0:-1]:
        matcher.in_order(*level)
    matcher.in_order(*column(keys_a.does, keys_b.does))
    for _ in range(_ROUNDS):
        if not matcher.is_complete:
            by_relations()
    matcher.in_order(*levels[0])
    for level in levels[:0:-1]:  # by itself alone, a line would be taken for any that looks alike
        matcher.anywhere(*level)
    matcher.in_order(*column(keys_a.callee, keys_b.callee))
    matcher.in_order(*column(keys_a.kind, keys_b.kind))
    found = matcher.done()
    return Match(
        tuple((rows_a[i], rows_b[j]) for i, j in found.pairs),
        tuple((rows_a[i], rows_b[j]) for i, j in found.moved),
        tuple(rows_a[i] for i in found.removed),
        tuple(rows_b[j] for j in found.added),
    )


def _rows(region: Region) -> list[int]:
    return [n for n, line in enumerate(region.body) if not isinstance(line, KernelDefinition)]


def _completed(
    known: Mapping[str, str], names: Iterable[str], taken: Iterable[str]
) -> dict[str, str]:
    """New names for all, those that are not known yet being free ones."""
    used = {*taken, *known.values()}
    found = dict(known)
    for name in names:
        if name not in found:
            new = name
            while new in used:
                new += "_"
            used.add(new)
            found[name] = new
    return found


def _twins(old: AnyLine, new: AnyLine) -> Iterator[tuple[tuple[str, Region], tuple[str, Region]]]:
    """The regions of two lines that stand for each other."""
    return zip(regions_of(old), regions_of(new), strict=False)


def _next(match: Match, position: int, end: int) -> int:
    """Before which line of the second region a line that it lacks would stand."""
    found = bisect_left(match.pairs, (position, -1))
    return match.pairs[found][1] if found < len(match.pairs) else end
