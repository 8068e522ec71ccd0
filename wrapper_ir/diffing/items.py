"""What stands in a program's tables: inputs, constants, symbols, results, and what it is."""

from __future__ import annotations

import enum
from itertools import zip_longest
from typing import TYPE_CHECKING, Final

from wrapper_ir.diffing.model import FieldChange, ItemChange, Kind
from wrapper_ir.diffing.sequences import Match, Matcher
from wrapper_ir.lines import (
    BufferInput,
    BufferValue,
    KernelDefinition,
    ObjectInput,
    ScalarInput,
    TorchOp,
    walk_regions,
)
from wrapper_ir.text.item_print import ItemPrinter

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Sequence

    from wrapper_ir.diffing.fields import Fields
    from wrapper_ir.diffing.keys import ProgramKeys
    from wrapper_ir.lines import Input, Program, Region, Value

__all__ = ["Items"]

_KINDS: Final = {BufferInput: "a buffer", ScalarInput: "a number", ObjectInput: "an object"}


class Items:
    """Matches what is in the tables of two programs, and says what is not the same.

    Args:
        before: The first program.
        after: The second.
        fields: Compares parts of them.
        buffers: Names of the first to names of the second; what is matched is added.
        symbols: The same of symbols.
        keys: Keys of the layouts of both.
    """

    def __init__(
        self,
        before: Program,
        after: Program,
        fields: Fields,
        buffers: dict[str, str],
        symbols: dict[str, str],
        keys: tuple[ProgramKeys, ProgramKeys],
    ) -> None:
        self._programs = (before, after)
        self._fields = fields
        self._buffers = buffers
        self._symbols = symbols
        self._keys = keys
        self._items = (ItemPrinter(before, strict=False), ItemPrinter(after, strict=False))
        self._params: dict[tuple[int, int], Match] = {}
        self._constants: list[tuple[str, str]] = []
        self._objects: list[tuple[str, str]] = []
        self._strays: list[tuple[list[str], list[str]]] = []

    # Matching.

    def match_constants(self) -> None:
        """Matches constants by the model's names for them, then by their layouts."""
        names = tuple([*program.constants] for program in self._programs)
        called = (
            [program.constants[n].qualified_name for n in each]
            for program, each in zip(self._programs, names, strict=True)
        )
        layouts = (
            [keys.layout(n) for n in each] for keys, each in zip(self._keys, names, strict=True)
        )
        matcher = Matcher(*map(len, names))
        for columns in (called, layouts):
            matcher.anywhere(*columns)
        self._constants = [(names[0][i], names[1][j]) for i, j in matcher.done().all]
        self._buffers.update(self._constants)
        self._match_objects()

    def _match_objects(self) -> None:
        """Matches objects by the model's names for them, then by their classes."""
        a, b = ([*program.objects.items()] for program in self._programs)
        matcher = Matcher(len(a), len(b))
        matcher.anywhere(*([(o.qualified_name, o.class_name) for _, o in each] for each in (a, b)))
        matcher.anywhere(*([o.class_name for _, o in each] for each in (a, b)))
        self._objects = [(a[i][0], b[j][0]) for i, j in matcher.done().all]
        self._buffers.update(self._objects)

    def match_params(self, a: Region, b: Region) -> None:
        """Matches what two regions take: alike in the same order first, then by place."""
        keys = ([self._param_key(side, p) for p in r.params] for side, r in enumerate((a, b)))
        found = self._params[id(a), id(b)] = _aligned(*keys)
        for i, j in found.all:
            old, new = a.params[i], b.params[j]
            if isinstance(old, BufferInput) and isinstance(new, BufferInput):
                self._buffers[old.name] = new.name
            elif isinstance(old, ScalarInput) and isinstance(new, ScalarInput):
                self._symbols[old.symbol] = new.symbol
            elif isinstance(old, ObjectInput) and isinstance(new, ObjectInput):
                self._buffers[old.object] = new.object

    def _param_key(self, side: int, param: Input) -> Hashable:
        if isinstance(param, BufferInput):
            return (self._keys[side].layout(param.name), param.donated)
        if isinstance(param, ObjectInput):
            return ("object", param.class_name)
        info = self._programs[side].symbols.get(param.symbol)
        return ("number", None if info is None else info.kind)

    def match_rest(self) -> None:
        """Matches symbols and layouts that nothing defines, by what is known of them."""
        strays = self._strays = [
            _strays(*each) for each in zip(self._programs, self._keys, strict=True)
        ]
        for table, place in ((self._buffers, 0), (self._symbols, 1)):
            names = [each[place] for each in strays]
            facts = (
                [(p.buffers if place == 0 else p.symbols)[name] for name in each]
                for p, each in zip(self._programs, names, strict=True)
            )
            matcher = Matcher(*map(len, names))
            matcher.anywhere(*names)
            matcher.anywhere(*facts)
            table.update({names[0][i]: names[1][j] for i, j in matcher.done().all})

    # Saying what is not the same.

    def changes(self) -> Iterator[ItemChange]:
        """The changes of the program as a whole, of its constants, symbols and ops."""
        yield from self._program()
        yield from self._constant_changes()
        yield from self._object_changes()
        yield from self._queue_changes()
        yield from self._symbol_changes()
        yield from self._declared()
        yield from self._stray_layouts()

    def _program(self) -> Iterator[ItemChange]:
        a, b = self._programs
        fields = [
            FieldChange(name, *(_word(getattr(p, name)) for p in (a, b)))
            for name in ("role", "stage", "in_spec", "out_spec")
            if getattr(a, name) != getattr(b, name)
        ]
        if fields:
            yield ItemChange("program", Kind.CHANGED, f"@{a.name}", f"@{b.name}", tuple(fields))

    def params(self, a: Region, b: Region) -> Iterator[ItemChange]:
        """The changes of what a region takes."""
        found = self._params[id(a), id(b)]
        for i, j in found.all:
            old, new = a.params[i], b.params[j]
            fields = tuple(self._param_fields(old, new))
            texts = (self._param_text(0, i, old), self._param_text(1, j, new))
            if (i, j) in found.moved:
                yield ItemChange("input", Kind.MOVED, *texts, fields)
            elif fields:
                yield ItemChange("input", Kind.CHANGED, *texts, fields)
        for i in found.removed:
            yield ItemChange("input", Kind.REMOVED, self._param_text(0, i, a.params[i]))
        for j in found.added:
            yield ItemChange("input", Kind.ADDED, "", self._param_text(1, j, b.params[j]))

    def _param_fields(self, old: Input, new: Input) -> Iterator[FieldChange]:
        if isinstance(old, BufferInput) and isinstance(new, BufferInput):
            a, b = self._programs
            yield from self._fields.of(old.donated, new.donated, "donated")
            yield from self._fields.layouts(a.buffers.get(old.name), b.buffers.get(new.name))
        elif isinstance(old, ObjectInput) and isinstance(new, ObjectInput):
            yield from self._fields.of(old.class_name, new.class_name, "class")
        elif type(old) is not type(new):
            yield FieldChange("kind", _KINDS[type(old)], _KINDS[type(new)])

    def _param_text(self, side: int, position: int, param: Input) -> str:
        return f"[{position}] {self._items[side].input(param)}"

    def _constant_changes(self) -> Iterator[ItemChange]:
        a, b = self._programs

        yield from self._alone("constant", self._constants, a.constants, b.constants)
        for old, new in self._constants:
            fields = [
                *self._fields.of(a.constants[old], b.constants[new]),
                *self._fields.layouts(a.buffers.get(old), b.buffers.get(new)),
            ]
            if fields:
                texts = (self._text(0, "constant", old), self._text(1, "constant", new))
                yield ItemChange("constant", Kind.CHANGED, *texts, tuple(fields))

    def _object_changes(self) -> Iterator[ItemChange]:
        a, b = self._programs
        yield from self._alone("object", self._objects, a.objects, b.objects)
        for old, new in self._objects:
            fields = tuple(self._fields.of(a.objects[old], b.objects[new]))
            if fields:
                texts = (self._text(0, "object", old), self._text(1, "object", new))
                yield ItemChange("object", Kind.CHANGED, *texts, fields)

    def _queue_changes(self) -> Iterator[ItemChange]:
        """The changes of streams, events and memory pools, which are told by their numbers."""
        for what in ("stream", "event", "mempool"):
            a, b = (getattr(program, f"{what}s") for program in self._programs)
            for number, (old, new) in enumerate(zip_longest(a, b), start=1):
                name = f"{what} {number}"
                if old is None:
                    yield ItemChange(what, Kind.ADDED, "", name)
                elif new is None:
                    yield ItemChange(what, Kind.REMOVED, name)
                elif old != new:
                    fields = tuple(self._fields.of(old, new))
                    yield ItemChange(what, Kind.CHANGED, name, name, fields)

    def _symbol_changes(self) -> Iterator[ItemChange]:
        a, b = self._programs
        pairs = [(o, n) for o, n in self._symbols.items() if o in a.symbols and n in b.symbols]
        yield from self._alone("symbol", pairs, a.symbols, b.symbols)
        for old, new in pairs:
            fields = tuple(self._fields.of(a.symbols[old], b.symbols[new]))
            if fields:
                yield ItemChange("symbol", Kind.CHANGED, old, new, fields)

    def _declared(self) -> Iterator[ItemChange]:
        """Library ops that only one program declares; an op is told by its schema."""
        a, b = ([_schema(d) for d in p.kernels.values()] for p in self._programs)
        yield from (ItemChange("op", Kind.REMOVED, text) for text in a if text and text not in b)
        yield from (ItemChange("op", Kind.ADDED, "", text) for text in b if text and text not in a)

    def _stray_layouts(self) -> Iterator[ItemChange]:
        """Layouts of names that nothing defines: a fault, but not one to keep quiet about."""
        a, b = (buffers for buffers, _ in self._strays)
        pairs = [(name, self._buffers[name]) for name in a if name in self._buffers]
        yield from self._alone("buffer", pairs, a, b)
        for old, new in pairs:
            layouts = (p.buffers[n] for p, n in zip(self._programs, (old, new), strict=True))
            fields = tuple(self._fields.layouts(*layouts))
            if fields:
                texts = (self._text(0, "buffer", old), self._text(1, "buffer", new))
                yield ItemChange("buffer", Kind.CHANGED, *texts, fields)

    def _alone(
        self,
        what: str,
        pairs: Sequence[tuple[str, str]],
        old: Iterable[str],
        new: Iterable[str],
    ) -> Iterator[ItemChange]:
        """What only one program has."""
        matched_a, matched_b = {o for o, _ in pairs}, {n for _, n in pairs}
        for name in old:
            if name not in matched_a:
                yield ItemChange(what, Kind.REMOVED, self._text(0, what, name))
        for name in new:
            if name not in matched_b:
                yield ItemChange(what, Kind.ADDED, "", self._text(1, what, name))

    def _text(self, side: int, what: str, name: str) -> str:
        items = self._items[side]
        if what == "object":
            return f"{items.object(name)} : {self._programs[side].objects[name].class_name}"
        return items.symbol(name) if what == "symbol" else items.defined(name)

    def results(self, a: Region, b: Region) -> Iterator[ItemChange]:
        """The changes of what a region gives."""
        renamed = [self._fields.renamed(value) for value in a.results]
        found = _aligned(renamed, b.results)
        for i, j in found.all:
            texts = (self._result_text(0, i, a), self._result_text(1, j, b))
            if (i, j) in found.moved:
                yield ItemChange("result", Kind.MOVED, *texts)
            elif renamed[i] != b.results[j]:
                yield ItemChange("result", Kind.CHANGED, *texts)
        for i in found.removed:
            yield ItemChange("result", Kind.REMOVED, self._result_text(0, i, a))
        for j in found.added:
            yield ItemChange("result", Kind.ADDED, "", self._result_text(1, j, b))

    def _result_text(self, side: int, position: int, region: Region) -> str:
        value: Value = region.results[position]
        text = self._items[side].value(value)
        if isinstance(value, BufferValue):
            text += f" : {self._items[side].layout_of(value.buffer)}"
        return f"[{position}] {text}"


def _aligned(a: Sequence[Hashable], b: Sequence[Hashable]) -> Match:
    """Equal ones in the same order, then wherever they are; then by place."""
    matcher = Matcher(len(a), len(b))
    matcher.in_order(a, b)
    matcher.anywhere(a, b)
    matcher.by_place()
    return matcher.done()


def _word(value: object) -> str:
    return str(value.value if isinstance(value, enum.Enum) else value)


def _schema(definition: KernelDefinition) -> str:
    source = definition.source
    return source.schema if isinstance(source, TorchOp) else ""


def _strays(program: Program, keys: ProgramKeys) -> tuple[list[str], list[str]]:
    """Buffers and symbols that are in the tables and that nothing defines."""
    buffers, symbols = set(program.constants), set[str]()
    for _, _, region in walk_regions(program):
        for param in region.params:
            if isinstance(param, BufferInput):
                buffers.add(param.name)
            elif isinstance(param, ScalarInput):
                symbols.add(param.symbol)
        for line in region.body:
            found = keys.effects(line)
            buffers.update(found.defines)
            symbols.update(found.defines_symbols)
    return (
        [name for name in program.buffers if name not in buffers],
        [name for name in program.symbols if name not in symbols],
    )
