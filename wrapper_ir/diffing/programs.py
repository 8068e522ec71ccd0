"""The structural diff of two programs."""

from __future__ import annotations

from bisect import bisect_left
from functools import partial
from typing import TYPE_CHECKING, Final

from wrapper_ir.analysis.liveness import Liveness
from wrapper_ir.diffing import model
from wrapper_ir.diffing.canonical_form import renaming
from wrapper_ir.diffing.keys import BodyKeys, Fields, ProgramKeys, new_keys, own_lines
from wrapper_ir.diffing.sequences import Fate, Match, Matcher
from wrapper_ir.diffing.tables import Kernels, Names, Tables
from wrapper_ir.errors import WrapperIRError
from wrapper_ir.lines import (
    AnyLine,
    AssertApart,
    AssertLayout,
    AssertSymbol,
    Program,
    Region,
    Stage,
    TorchOp,
    walk,
)
from wrapper_ir.lines.base import Role
from wrapper_ir.lines.fields import as_program
from wrapper_ir.lines.traits import allocates, calls_op, declares, own_roles
from wrapper_ir.lines.visitor import check_lines
from wrapper_ir.lines.walk import Path, Renaming, regions_of
from wrapper_ir.planning.sizes import Sizes, held_bytes, needed_bytes, peak
from wrapper_ir.text.printer import ItemPrinter, first_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence


# The counts of programs, for the summary of a diff.

#: Lines that are checks.
_CHECKS: Final = (AssertApart, AssertLayout, AssertSymbol)


#: Errors caused by the inconsistent layouts and storages of invalid programs.
_SENSELESS: Final = (ArithmeticError, LookupError, TypeError, ValueError, WrapperIRError)


def figures(program: Program) -> model.Figures:
    """Count a program, which may be invalid."""
    sizes = Sizes(program)
    lines = [line for _, line in walk(program)]
    new = [line.out for line in lines if allocates(line)]
    return model.Figures(
        lines=len(lines) - sum(map(declares, lines)),
        kernels=sum(not isinstance(k.source, TorchOp) for k in program.kernels.values()),
        calls=sum(Role.CALL in own_roles(line) for line in lines),
        ops=sum(map(calls_op, lines)),
        checks=sum(isinstance(line, _CHECKS) for line in lines),
        allocations=len(new),
        allocated_bytes=sum(_bytes(sizes, name) for name in new),
        peak_bytes=_peak(program, sizes),
    )


def _bytes(sizes: Sizes, name: str) -> int:
    try:
        return sizes.of(name)
    except _SENSELESS:
        return 0


def _peak(program: Program, sizes: Sizes) -> int | None:
    try:
        liveness = Liveness(program.region, program)
        measure = held_bytes if program.stage is Stage.PLANNED else needed_bytes
        return peak(measure(program.region, liveness, program, sizes))
    except _SENSELESS:
        return None


#: Rounds of matching lines by neighbours matched before; the length of chains that are followed.
_ROUNDS: Final = 3


def diff(before: Program, after: Program) -> model.ProgramDiff:
    """Compare two programs by meaning: names and origins do not count.

    Lines are matched by what they do and by their neighbours. For a matched line, the diff lists
    the parts that differ; operands count as equal if they are matched.

    Args:
        before: Any program, even an invalid one.
        after: The program to compare it with.

    Raises:
        NotAProgramError: An argument is not a program.
        NotALineError: A program's body contains an object that is not a line.
    """
    check_lines(as_program(before, "wir.diff"))
    check_lines(as_program(after, "wir.diff"))
    if before == after:
        count = figures(before)
        return model.ProgramDiff(count, count)
    return _Diff(before, after).result()


def aligned(before: Program, after: Program) -> Program:
    """Return the first program with the second's names for everything that matches.

    Texts emitted from the two then differ only where the programs do. Things that only the first
    program has keep their names unless the second uses them.

    Args:
        before: The program to rename.
        after: The program that provides the names.
    """
    names = _Diff(before, after).names
    renamed = renaming(
        _filled(names.buffers, before.buffers, after.buffers),
        _filled(names.kernels, before.kernels, after.kernels),
        _filled(names.symbols, before.symbols, after.symbols),
    ).program(before)
    return renamed.replace(name=after.name)


class _Diff:
    """One comparison. Everything is matched first, so that all names are known, then reported."""

    def __init__(self, before: Program, after: Program) -> None:
        self._before, self._after = programs = before, after
        self._kernels = Kernels(before, after)
        keys = new_keys()
        numbers_a, numbers_b = self._kernels.numbers()
        self._keys = ProgramKeys(before, keys, numbers_a), ProgramKeys(after, keys, numbers_b)
        self.names = Names(self._kernels.names())
        defined = {*before.buffers, *before.symbols, *before.kernels}

        def new_name(name: str, table: Mapping[str, str]) -> str:
            # Things that the second program lacks get an impossible name. A name that is undefined
            # in the first program, which is invalid, stays the same.
            return table.get(name) or (f"-{name}" if name in defined else name)

        tables = (self.names.buffers, self.names.kernels, self.names.symbols)
        to_after = Renaming(*(partial(new_name, table=table) for table in tables))
        self._fields = Fields(before, after, to_after)
        self._tables = Tables(programs, self._keys, self.names, self._fields)
        self._items = [ItemPrinter(p, strict=False) for p in programs]
        self._matches: dict[tuple[int, int], Match] = {}
        self._regions = before.region, after.region
        self._tables.match_constants()
        self._match(*self._regions)
        self._tables.match_rest()

    def _match(self, a: Region, b: Region) -> None:
        """Match two regions and everything in them, and note the names of matched lines."""
        keys_a, keys_b = BodyKeys(self._keys[0], a), BodyKeys(self._keys[1], b)
        self._tables.match_params(a, b)
        match = self._matches[id(a), id(b)] = _matched(keys_a, keys_b)
        for i, j in match.all:
            self.names.note(keys_a.effects[i], keys_b.effects[j])
            for _, inner, twin in _twins(keys_a.lines[i], keys_b.lines[j]):
                self._match(inner, twin)

    def result(self) -> model.ProgramDiff:
        """Return all differences."""
        a, b = self._regions
        return model.ProgramDiff(
            figures(self._before),
            figures(self._after),
            (*self._tables.params(a, b), *self._tables.changes(), *self._tables.results(a, b)),
            tuple(self._kernels.changes(self._fields)),
            tuple(self._lines(a, b, Path(), Path(), "body")),
            self._folding(),
        )

    def _folding(self) -> model.ProgramDiff | None:
        """Return the differences between the programs that compute folded constants."""
        old, new = self._before.folding, self._after.folding
        if old is None and new is None:
            return None
        none = Program(stage=self._after.stage)
        return diff(old or none, new or none) or None

    def _lines(
        self, a: Region, b: Region, path_a: Path, path_b: Path, name: str
    ) -> Iterator[model.LineChange]:
        """Yield the changes to a region's lines, in the order of the second program."""
        match = self._matches[id(a), id(b)]
        rows_a, rows_b = own_lines(a), own_lines(b)
        for kind, i, j in sorted(match.fates(), key=lambda fate: _place(match, fate, len(rows_b))):
            old, old_path = _at(rows_a, i, path_a, name)
            new, new_path = _at(rows_b, j, path_b, name)
            fields: tuple[model.FieldChange, ...] = ()
            regions: tuple[model.RegionChange, ...] = ()
            if old is not None and new is not None:
                fields = tuple(self._parts(old, new))
                regions = tuple(self._inside(old, new, old_path, new_path))
            if fields or regions or kind is not model.Kind.CHANGED:
                sides = zip(self._items, (old, new), strict=True)
                was, now = ["" if line is None else first_line(p, line) for p, line in sides]
                paths = (str(old_path), str(new_path))
                yield model.LineChange(kind, *paths, was, now, fields, regions)

    def _parts(self, old: AnyLine, new: AnyLine) -> Iterator[model.FieldChange]:
        if type(old) is type(new):
            yield from self._fields.of(old, new)
        else:
            yield model.FieldChange("line", old.mnemonic, new.mnemonic)
        before, after = self._keys[0].effects(old).defines, self._keys[1].effects(new).defines
        for number, (first, second) in enumerate(zip(before, after, strict=False)):
            layouts = (self._before.buffers.get(first), self._after.buffers.get(second))
            for part in self._fields.layouts(*layouts):
                name = part.name if len(after) == 1 else f"results[{number}].{part.name}"
                yield model.FieldChange(name, part.before, part.after)

    def _inside(
        self, old: AnyLine, new: AnyLine, at_a: Path, at_b: Path
    ) -> Iterator[model.RegionChange]:
        for name, a, b in _twins(old, new):
            items = (*self._tables.params(a, b), *self._tables.results(a, b))
            lines = tuple(self._lines(a, b, at_a, at_b, name))
            if items or lines:
                yield model.RegionChange(name, items, lines)


def _matched(a: BodyKeys, b: BodyKeys) -> Match:
    """Match lines with equal neighbourhoods first, then by weaker keys, then changed ones."""
    matcher = Matcher(len(a.kind), len(b.kind))
    *strong, own = zip(reversed(a.levels), reversed(b.levels), strict=True)
    for level in strong:
        matcher.in_order(*level)
    matcher.in_order(a.does, b.does)
    for _ in range(_ROUNDS):
        match = matcher.done()
        if match.removed and match.added:
            known_a, known_b = ({pair[n]: k for k, pair in enumerate(match.pairs)} for n in (0, 1))
            matcher.in_order(a.relations(0, known_a), b.relations(1, known_b))
    matcher.in_order(*own)
    for level in strong:  # level 0 alone would pair any lines that look alike
        matcher.anywhere(*level)
    match = matcher.done()
    if match.removed and match.added:
        matcher.in_order(a.heads(match.removed), b.heads(match.added))
        matcher.in_order(a.kind, b.kind)
    return matcher.done()


def _at(
    rows: Sequence[tuple[int, AnyLine]], row: int | None, path: Path, name: str
) -> tuple[AnyLine | None, Path]:
    """Return the line in a row of a region, and its path; None and the root path without a row."""
    if row is None:
        return None, Path()
    position, line = rows[row]
    return line, path.then(name, position)


def _place(match: Match, fate: Fate, end: int) -> tuple[int, int]:
    """Return a sort key that orders the lines of both programs by their place in the second."""
    _, i, j = fate
    if j is not None:
        return j, 1
    index = bisect_left(match.pairs, (i, -1))
    return (match.pairs[index][1] if index < len(match.pairs) else end), 0


def _twins(old: AnyLine, new: AnyLine) -> Iterator[tuple[str, Region, Region]]:
    """Yield the corresponding regions of two lines."""
    for (name, a), (other, b) in zip(regions_of(old), regions_of(new), strict=False):
        if name == other:
            yield name, a, b


def _filled(known: Mapping[str, str], names: Iterable[str], taken: Iterable[str]) -> dict[str, str]:
    """Return new names for all ``names``: the known ones, and unused ones for the rest."""
    used = {*taken, *known.values()}
    table = dict(known)
    for name in names:
        if name not in table:
            new = name
            while new in used:
                new += "_"
            used.add(new)
            table[name] = new
    return table
