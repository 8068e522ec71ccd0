"""Comparing the tables of two programs: inputs, constants, objects, streams, symbols, results."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import wrapper_ir.lines as ir
from wrapper_ir.diffing.canonical_form import canonical_source
from wrapper_ir.diffing.model import FieldChange, ItemChange, KernelChange, Kind
from wrapper_ir.diffing.sequences import Match, Matcher, Pairs, text_changes
from wrapper_ir.text.printer import ItemPrinter

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence

    from wrapper_ir.diffing.keys import Fields, ProgramKeys


# Matching the kernels of two programs, independent of their names.


#: The share of common lines from which two kernels count as one that was changed.
_ALIKE: Final = 0.5

#: The maximum number of unmatched kernels that are compared with each other.
_MOST: Final = 64

#: The suffix that Inductor appends to a kernel's name: its number, or part of a hash.
_SUFFIX: Final = re.compile(r"(?:_(?:\d+|[0-9a-f]{8,}))+\Z")


class Kernels:
    """The kernels of two programs, matched by their definition, by name, then by shared text."""

    def __init__(self, before: ir.Program, after: ir.Program) -> None:
        sides = self._a, self._b = _Side(before), _Side(after)
        matcher = Matcher(*(len(side.kernels) for side in sides))
        for columns in zip(*(side.columns for side in sides), strict=True):
            matcher.in_order(*columns)
            matcher.anywhere(*columns)
        left = matcher.done()
        matcher.add(_alike(*sides, left.removed[:_MOST], left.added[:_MOST]))
        self._match = matcher.done()

    def names(self) -> dict[str, str]:
        """Return the second program's names for the first program's kernels."""
        a, b = self._a.kernels, self._b.kernels
        return {a[i].name: b[j].name for i, j in self._match.all}

    def numbers(self) -> tuple[dict[str, int], dict[str, int]]:
        """Return a number for each kernel of both programs; matched kernels share one."""
        before, after = {}, {}
        for number, (_, i, j) in enumerate(self._match.fates()):
            if i is not None:
                before[self._a.kernels[i].name] = number
            if j is not None:
                after[self._b.kernels[j].name] = number
        return before, after

    def changes(self, fields: Fields) -> Iterator[KernelChange]:
        """Yield the kernels that only one program has, or that differ."""
        for kind, i, j in self._match.fates():
            if i is None or j is None:
                old = "" if i is None else self._a.kernels[i].name
                yield KernelChange(kind, old, "" if j is None else self._b.kernels[j].name)
                continue
            a, b = self._a.kernels[i], self._b.kernels[j]
            parts = tuple(_parts(a, b, fields))
            code = text_changes(self._a.texts[i], self._b.texts[j])
            if parts or code:
                yield KernelChange(Kind.CHANGED, a.name, b.name, parts, code)


class _Side:
    """The kernels of one program, and the columns of keys for matching them."""

    def __init__(self, program: ir.Program) -> None:
        kernels = program.kernels.values()
        self.kernels = [k for k in kernels if not isinstance(k.source, ir.TorchOp)]
        sources: list[Any] = [canonical_source(kernel.source) for kernel in self.kernels]
        self.texts = [source.code.splitlines() for source in sources]
        names = [kernel.name for kernel in self.kernels]
        params = (kernel.params for kernel in self.kernels)
        stems = [_SUFFIX.sub("", name) for name in names]
        self.columns = (list(zip(params, sources, strict=True)), names, stems)


def _alike(a: _Side, b: _Side, left_a: Sequence[int], left_b: Sequence[int]) -> Pairs:
    """Return pairs of kernels that share much of their text, most similar first."""
    lines_a = {i: Counter(a.texts[i]) for i in left_a}
    lines_b = {j: Counter(b.texts[j]) for j in left_b}
    scores = []
    for i, text_a in lines_a.items():
        for j, text_b in lines_b.items():
            shared = 2 * sum((text_a & text_b).values())
            scores.append((-shared / max(1, text_a.total() + text_b.total()), i, j))
    pairs: dict[int, int] = {}
    for score, i, j in sorted(scores):
        if -score >= _ALIKE and i not in pairs and j not in pairs.values():
            pairs[i] = j
    return list(pairs.items())


def _parts(a: ir.KernelDefinition, b: ir.KernelDefinition, fields: Fields) -> Iterator[FieldChange]:
    """Yield the parameters and options that differ; texts are compared elsewhere, by line."""
    yield from fields.of(a.params, b.params, "params")
    old, new = a.source, b.source
    if type(old) is not type(new):
        yield FieldChange("source", type(old).__name__, type(new).__name__)
    else:
        yield from (f for f in fields.of(old, new) if f.name not in ("code", "entry"))


_KINDS: Final = {
    ir.BufferInput: "a buffer",
    ir.ScalarInput: "a number",
    ir.ObjectInput: "an object",
}


@dataclasses.dataclass(frozen=True, slots=True)
class Names:
    """The second program's names for things in the first, as far as they are known."""

    kernels: dict[str, str]
    buffers: dict[str, str] = dataclasses.field(default_factory=dict)
    """Includes objects, whose names are disjoint from those of buffers."""
    symbols: dict[str, str] = dataclasses.field(default_factory=dict)

    def note(self, old: ir.Effects, new: ir.Effects) -> None:
        """Record that two lines, or two parameters, define the same things."""
        self.buffers.update(zip(old.defines, new.defines, strict=False))
        self.buffers.update(zip(old.defines_objects, new.defines_objects, strict=False))
        self.symbols.update(zip(old.defines_symbols, new.defines_symbols, strict=False))


class Entry(NamedTuple):
    """An entry of a table: its text, and the value and layout to compare."""

    text: str = ""
    value: Any = None
    layout: ir.Layout | None = None


class Tables:
    """Matches entries of two programs' tables, notes their names, and reports differences."""

    def __init__(
        self,
        programs: tuple[ir.Program, ir.Program],
        keys: tuple[ProgramKeys, ProgramKeys],
        names: Names,
        fields: Fields,
    ) -> None:
        self._programs = programs
        self._keys = keys
        self._names = names
        self._fields = fields
        self._items = [ItemPrinter(program, strict=False) for program in programs]
        self._known: dict[str, Match] = {}
        self._params: dict[tuple[int, int], Match] = {}
        self._strays = [_strays(*side) for side in zip(programs, keys, strict=True)]

    # Matching.

    def match_constants(self) -> None:
        """Match constants and objects by the model's names for them, then by layout or class."""
        a, b = self._programs
        constants, objects = (a.constants, b.constants), (a.objects, b.objects)
        self._match("constant", constants, lambda *row: row[-1].qualified_name, self._layout)
        self._match("object", objects, _itself, lambda *row: row[-1].class_name)

    def match_params(self, a: ir.Region, b: ir.Region) -> None:
        """Match the parameters of two regions: equal ones in order first, then by position."""
        one, two = self._keys
        match = _aligned([*map(one.shape, a.params)], [*map(two.shape, b.params)])
        self._params[id(a), id(b)] = match
        for i, j in match.all:
            self._names.note(one.effects(a.params[i]), two.effects(b.params[j]))

    def match_rest(self) -> None:
        """Match layouts and symbols that nothing defines, by name, then by value."""
        for what, *rows in zip(("buffer", "symbol"), *self._strays, strict=True):
            self._match(what, rows, lambda _, name, __: name, _itself)
        a, b = self._programs
        self._known["symbol"] = _by_name(a.symbols, b.symbols, self._names.symbols)

    def _match(
        self,
        what: str,
        rows: Sequence[Mapping[str, Any]],
        *facts: Callable[[int, str, Any], Hashable],
    ) -> None:
        """Match entries by facts: functions of the side, the name and the value of an entry."""
        matcher = Matcher(*map(len, rows))
        for fact in facts:
            columns = ([fact(n, *row) for row in each.items()] for n, each in enumerate(rows))
            matcher.anywhere(*columns)
        a, b = map(list, rows)
        match = matcher.done()
        self._known[what] = Match(match.all, [], match.removed, match.added)
        names = self._names.symbols if what == "symbol" else self._names.buffers
        names.update({a[i]: b[j] for i, j in match.all})

    def _layout(self, side: int, name: str, _: object) -> int:
        return self._keys[side].layout(name)

    # Reporting.

    def changes(self) -> Iterator[ItemChange]:
        """Yield the changes to the program as a whole, and to its constants, symbols and ops."""
        a, b = self._programs
        parts = ("role", "stage", "in_spec", "out_spec", "tangents", "unread")
        fields = [f for n in parts for f in self._fields.of(getattr(a, n), getattr(b, n), n)]
        if fields:
            yield ItemChange("program", Kind.CHANGED, f"@{a.name}", f"@{b.name}", tuple(fields))
        after = self._entries(1)
        for what, old in self._entries(0).items():
            new = after[what]
            match = self._known.get(what) or _by_name(old, new, {name: name for name in old})
            changes = list(self._changes(what, (old.values(), new.values()), match))
            if what in self._known:
                changes.sort(key=lambda change: change.kind is Kind.CHANGED)
            yield from changes

    def _entries(self, side: int) -> dict[str, dict[str, Entry]]:
        """Return the named entries of each table."""
        program, items = self._programs[side], self._items[side]
        layouts = program.buffers
        tables = {
            "constant": {
                name: Entry(items.defined(name), constant, layouts.get(name))
                for name, constant in program.constants.items()
            },
            "object": {
                name: Entry(f"{items.object(name)} : {each.class_name}", each)
                for name, each in program.objects.items()
            },
        }
        for what in ("stream", "event", "mempool"):  # these have numbers, not names
            rows = enumerate(getattr(program, f"{what}s"), start=1)
            tables[what] = {text: Entry(text, each) for n, each in rows if (text := f"{what} {n}")}
        symbols, sources = program.symbols, (each.source for each in program.kernels.values())
        ops = [source.schema for source in sources if isinstance(source, ir.TorchOp)]
        strays, _ = self._strays[side]
        return {
            **tables,
            "symbol": {name: Entry(items.symbol(name), symbols[name]) for name in symbols},
            "op": {schema: Entry(schema) for schema in ops},
            "buffer": {n: Entry(items.defined(n), None, each) for n, each in strays.items()},
        }

    def params(self, a: ir.Region, b: ir.Region) -> Iterator[ItemChange]:
        """Yield the changes to a region's parameters."""
        sides = [self._param_entries(n, region) for n, region in enumerate((a, b))]
        return self._changes("input", sides, self._params[id(a), id(b)])

    def _param_entries(self, side: int, region: ir.Region) -> Iterator[Entry]:
        layouts, items = self._programs[side].buffers, self._items[side]
        for n, param in enumerate(region.params):
            layout = layouts.get(param.name) if isinstance(param, ir.BufferInput) else None
            yield Entry(f"[{n}] {items.show(param)}", param, layout)

    def results(self, a: ir.Region, b: ir.Region) -> Iterator[ItemChange]:
        """Yield the changes to a region's results, without fields: the texts are enough."""
        match = _aligned([*map(self._fields.renaming.value, a.results)], b.results)
        sides = [self._result_entries(n, region) for n, region in enumerate((a, b))]
        for change in self._changes("result", sides, match):
            yield dataclasses.replace(change, fields=())

    def _result_entries(self, side: int, region: ir.Region) -> Iterator[Entry]:
        items = self._items[side]
        for n, value in enumerate(region.results):
            text = f"[{n}] {items.show(value)}"
            if isinstance(value, ir.BufferValue):
                text += f" : {items.layout_of(value.buffer)}"
            yield Entry(text, value)

    def _changes(
        self, what: str, sides: Iterable[Iterable[Entry]], match: Match
    ) -> Iterator[ItemChange]:
        a, b = map(list, sides)
        for kind, i, j in match.fates():
            old, new = Entry() if i is None else a[i], Entry() if j is None else b[j]
            fields = () if i is None or j is None else tuple(self._parts(old, new))
            if fields or kind is not Kind.CHANGED:
                yield ItemChange(what, kind, old.text, new.text, fields)

    def _parts(self, old: Entry, new: Entry) -> Iterator[FieldChange]:
        if type(old.value) is not type(new.value) and type(old.value) in _KINDS:
            yield FieldChange("kind", _KINDS[type(old.value)], _KINDS[type(new.value)])
            return
        yield from self._fields.of(old.value, new.value)
        yield from self._fields.layouts(old.layout, new.layout)


def _itself(_: int, __: str, value: Hashable) -> Hashable:
    return value


def _by_name(a: Mapping[str, object], b: Mapping[str, object], names: Mapping[str, str]) -> Match:
    """Match the entries whose names correspond."""
    place = {name: j for j, name in enumerate(b)}
    pairs = [(i, place[names[name]]) for i, name in enumerate(a) if names.get(name) in place]
    paired = [{pair[side] for pair in pairs} for side in (0, 1)]
    alone = ([n for n in range(len(each)) if n not in paired[s]] for s, each in enumerate((a, b)))
    return Match(pairs, [], *alone)


def _aligned(a: Sequence[Hashable], b: Sequence[Hashable]) -> Match:
    """Match equal elements in order, then anywhere, then the rest by position."""
    matcher = Matcher(len(a), len(b))
    matcher.in_order(a, b)
    matcher.anywhere(a, b)
    matcher.by_place()
    return matcher.done()


def _strays(program: ir.Program, keys: ProgramKeys) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the layouts and symbols that nothing defines, which an invalid program may have."""
    layouts = {n: layout for n, layout in program.buffers.items() if n not in keys.buffers}
    return layouts, {n: info for n, info in program.symbols.items() if n not in keys.symbols}
