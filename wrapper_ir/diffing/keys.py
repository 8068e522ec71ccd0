"""Comparing parts of two programs by declared fields, and matching lines by nameless keys."""

from __future__ import annotations

import dataclasses
import enum
from collections import defaultdict
from itertools import chain, count
from typing import TYPE_CHECKING, Any, Final, TypeAlias, get_args

import sympy

import wrapper_ir.lines as ir
from wrapper_ir.diffing.model import FieldChange
from wrapper_ir.lines import effects
from wrapper_ir.lines.expr import scalar_key
from wrapper_ir.lines.expr_printer import COMMUTATIVE
from wrapper_ir.lines.traits import NAMED_FIELDS, PerClass, declares, own_roles
from wrapper_ir.text.printer import ItemPrinter

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping

    from wrapper_ir.lines.effects import Effects
    from wrapper_ir.lines.walk import Renaming


_NUMBERS: Final = (bool, int, float, complex, sympy.Basic)


#: Roles of defined names, whose spelling does not matter.
_NEW: Final = (ir.Role.DEFINE, ir.Role.DEFINE_OBJECT, ir.Role.DEFINE_SYMBOL)

#: Prefixes of names in the text form if they are not those of buffers; ops have none.
_MARKS: Final = {ir.Role.CALL: "@", ir.Role.DECLARE: "@", ir.Role.CALL_OP: ""}


def roles_of(value: object) -> Mapping[str, ir.Role | None]:
    """Return the significant fields of a line or part, with the roles of names in them."""
    return _ROLES[type(value)]


def _roles(cls: type) -> dict[str, ir.Role | None]:
    names = [f.name for f in dataclasses.fields(cls) if f.init and f.name != "origin"]
    roles: dict[str, ir.Role | None] = dict.fromkeys(names)
    return roles | {f.name: f.roles[0].role for f in NAMED_FIELDS[cls] if f.roles}


_ROLES: Final = PerClass(_roles)


class Fields:
    """Compares parts of two programs, after renaming those of the first as in the second."""

    def __init__(self, before: ir.Program, after: ir.Program, renaming: Renaming) -> None:
        self._before = ItemPrinter(before, strict=False)
        self._after = ItemPrinter(after, strict=False)
        self.renaming = renaming

    def of(self, old: Any, new: Any, name: str = "") -> Iterator[FieldChange]:
        """Yield the differing parts of two values, such as lines.

        Neither regions nor the layouts of definitions are compared here.
        """
        renamed = self.renaming.value(old)
        if _same(renamed, new) or isinstance(new, ir.Region):
            return
        if type(old) is not type(new) or isinstance(new, _WHOLE):
            yield self._whole(old, new, name)
        elif type(new) is tuple and len(new) == len(old):
            for number, (was, is_) in enumerate(zip(old, new, strict=True)):
                yield from self.of(was, is_, f"{name}[{number}]")
        elif dataclasses.is_dataclass(new):
            for field, role in roles_of(new).items():
                was, is_ = getattr(old, field), getattr(new, field)
                inner = f"{name}.{field}" if name else field
                if role is None:
                    yield from self.of(was, is_, inner)
                elif role not in _NEW and getattr(renamed, field) != is_:
                    yield self._whole(was, is_, inner, _MARKS.get(role, "%"))
        else:
            yield self._whole(old, new, name)

    def layouts(self, old: ir.Layout | None, new: ir.Layout | None) -> Iterator[FieldChange]:
        """Yield the differing parts of two layouts."""
        if old is None or new is None:
            if old is not new:
                before = "?" if old is None else self._before.layout(old)
                after = "?" if new is None else self._after.layout(new)
                yield FieldChange("layout", before, after)
            return
        implied = old.is_contiguous and new.is_contiguous  # strides follow from sizes
        yield from (f for f in self.of(old, new) if not (implied and f.name.startswith("stride")))

    def _whole(self, old: Any, new: Any, name: str, mark: str = "") -> FieldChange:
        return FieldChange(name, _shown(self._before, old, mark), _shown(self._after, new, mark))


#: Types whose values are short, and shown as a whole.
_WHOLE: Final = (*get_args(ir.Arg), *get_args(ir.Value), ir.Device)


def _same(a: Any, b: Any) -> bool:
    if isinstance(b, _NUMBERS) and isinstance(a, _NUMBERS):
        return scalar_key(a) == scalar_key(b)
    return type(a) is type(b) and bool(a == b)


def _shown(items: ItemPrinter, value: Any, mark: str = "") -> str:
    """Return a value in the text form."""
    if isinstance(value, str):
        return mark + value
    if isinstance(value, tuple):
        return f"[{', '.join(_shown(items, item, mark) for item in value)}]"
    if isinstance(value, enum.Enum):
        return str(value.value)  # for a dtype, its short name
    if isinstance(value, ir.Region):
        return "{...}"
    shown: dict[Any, Callable[[Any], str]] = {
        ir.Arg: items.show,
        ir.Value: items.show,
        _NUMBERS: items.scalar,
        ir.Layout: items.layout,
    }
    for kinds, show in shown.items():
        if isinstance(value, kinds):
            return show(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, (type, ir.Device)):
        fields = (f"{f}={_shown(items, getattr(value, f))}" for f in roles_of(value))
        return f"{type(value).__name__}({', '.join(fields)})"
    return "none" if value is None else str(value)


# Keys for matching lines, without names.
#
# Convention: keys have *levels*. At level 0 a key covers only the line: its class, layouts, numbers
# and callee. Level n + 1 adds the level n keys of the lines that define its operands and of the
# lines that use its results. So similar lines are told apart by their neighbours, and a change
# only affects keys nearby. Weak keys, for lines that have changed, cover less than level 0.
#
# Everything derives from the declared fields of classes, so a new kind of line needs no code here.
# Keys are numbers from a table that the two compared programs share.


LEVELS: Final = 4

Keys: TypeAlias = defaultdict["Hashable", int]
"""Assigns a number to each value; equal values share one."""


def new_keys() -> Keys:
    """Return an empty table of keys."""
    return defaultdict(count().__next__)


class ProgramKeys:
    """Makes the keys of one program. Matched kernels share their numbers in ``kernels``."""

    def __init__(self, program: ir.Program, keys: Keys, kernels: Mapping[str, int]) -> None:
        #: The table shared with the other program.
        self.keys = keys
        self._program = program
        self._kernels = kernels
        self._plans: dict[type, list[tuple[str, Callable[[Any], Hashable]]]] = {}
        self._exprs: dict[sympy.Basic, int] = {}
        self._layouts: dict[ir.Layout | None, int] = {}
        self._digests: dict[int, int] = {}
        self._effects: dict[int, ir.Effects] = {}
        #: All buffers that the program defines, and a nameless description of each such symbol.
        self.buffers: set[str] = set(program.constants)
        self.symbols: dict[str, Hashable] = {}
        for _, _, region in ir.walk_regions(program):
            for item in (*region.params, *region.body):
                does = self.effects(item)
                self.buffers.update(does.defines)
                for symbol in does.defines_symbols:
                    self.symbols[symbol] = self.head(item, numbers=True)

    def effects(self, item: ir.Input | ir.AnyLine) -> ir.Effects:
        """Return the effects of a line or parameter of the program; they are cached."""
        cached = self._effects.get(id(item))
        if cached is None:
            cached = self._effects[id(item)] = effects(item, self._program)
        return cached

    def layout(self, name: str) -> int:
        """Return the key of a buffer's layout."""
        layout = self._program.buffers.get(name)
        key = self._layouts.get(layout)
        if key is None:
            key = self._layouts[layout] = self.keys["layout", self.shape(layout)]
        return key

    def line(self, line: ir.AnyLine) -> int:
        """Return the level 0 key of a line."""
        return self.keys["line", self.shape(line)]

    def shape(self, value: Any) -> Hashable:
        """Return a value without the names in it; numbers of different types differ."""
        kind = type(value)
        plan = self._plans.get(kind)
        if plan is not None:
            return (kind, *[how(getattr(value, name)) for name, how in plan])
        if kind is tuple:
            return tuple(map(self.shape, value))
        if isinstance(value, (str, enum.Enum)) or value is None:
            return value
        if isinstance(value, sympy.Basic):
            return self._expr(value)
        if isinstance(value, ir.Region):
            return self._digest(value)
        if not dataclasses.is_dataclass(value):
            return (kind, repr(value))
        roles = roles_of(value).items()
        self._plans[kind] = [(name, self._shape_of_names(role)) for name, role in roles]
        return self.shape(value)

    def _shape_of_names(self, role: ir.Role | None) -> Callable[[Any], Hashable]:
        """Return a function that describes one or several names without their spelling."""
        symbols = self._program.symbols
        known: dict[ir.Role | None, Callable[[Any], Hashable]] = {
            None: self.shape,
            ir.Role.CALL_OP: self.shape,
            ir.Role.CALL: self._kernels.get,
            ir.Role.DECLARE: self._kernels.get,
            ir.Role.DEFINE: self.layout,
            ir.Role.DEFINE_SYMBOL: lambda name: symbols[name].kind if name in symbols else None,
        }
        return known.get(role, lambda names: len(names) if type(names) is tuple else None)

    def head(self, line: Any, *, numbers: bool = False) -> Hashable:
        """Return a line's class, callee and strings, and the layout of memory that it creates.

        With ``numbers`` also the integers of its parts, such as the dimension whose size is bound.
        """
        parts: list[Hashable] = [_class(line)]
        for name, role in roles_of(line).items():
            value = getattr(line, name)
            if role is ir.Role.CALL:
                parts.append(self._kernels.get(value))
            elif role is ir.Role.DEFINE:
                parts.append(self.layout(value))
            elif isinstance(value, str) and role in (None, ir.Role.CALL_OP):
                parts.append(value)
            elif dataclasses.is_dataclass(value) and not isinstance(value, ir.Region):
                parts.append(type(value).__name__)
                if numbers:
                    inner = (getattr(value, field) for field in roles_of(value))
                    parts += [number for number in inner if isinstance(number, int)]
        return tuple(parts)

    def _digest(self, region: ir.Region) -> int:
        """Return one key for the contents of a region."""
        key = self._digests.get(id(region))
        if key is None:
            lines = tuple(map(self.line, region.body))
            parts = (*map(self.shape, (region.params, region.results)), lines)
            key = self._digests[id(region)] = self.keys[parts]
        return key

    def _expr(self, expr: sympy.Basic) -> int:
        """Return the key of an expression, independent of the names of its symbols."""
        key = self._exprs.get(expr)
        if key is None:
            if isinstance(expr, sympy.Symbol):
                parts: Hashable = self.symbols.get(expr.name)
            elif not expr.args:
                parts = str(expr)
            else:
                inner = [self._expr(arg) for arg in expr.args]
                parts = tuple(sorted(inner) if isinstance(expr, COMMUTATIVE) else inner)
            key = self._exprs[expr] = self.keys["expr", type(expr), parts]
        return key

    def outside(self, region: ir.Region) -> dict[str, int]:
        """Return the keys of buffers that no line of the region defines."""
        keys = self.keys
        nowhere = keys["nowhere"]
        outside = defaultdict(lambda: nowhere)
        for name, constant in self._program.constants.items():
            outside[name] = keys["constant", constant.qualified_name]
        for param in region.params:
            outside.update((n, keys["param", self.layout(n)]) for n in self.effects(param).defines)
        return outside


class BodyKeys:
    """The keys of a region's own lines, in order."""

    def __init__(self, of: ProgramKeys, region: ir.Region) -> None:
        self._of = of
        self.lines: list[ir.AnyLine] = [line for _, line in own_lines(region)]
        self.effects: list[Effects] = [of.effects(line) for line in self.lines]
        own = [of.line(line) for line in self.lines]
        #: The weakest keys: the class, or ``_MEMORY`` for lines that create memory.
        self.kind: list[str] = [_class(line) for line in self.lines]
        #: The level 0 keys of lines that compute something; None for the others, which look alike.
        rows = zip(self.kind, self.effects, own, strict=True)
        self.does: list[int | None] = [
            None if kind == _MEMORY or does.kills else key for kind, does, key in rows
        ]
        maker = {name: n for n, each in enumerate(self.effects) for name in each.defines}
        operands = [_operands(each) for each in self.effects]
        #: For each line, those that use its results and those that define its operands, with slots.
        self.users: list[list[tuple[int, int]]] = [[] for _ in own]
        self.makers: list[list[tuple[int, int]]] = [[] for _ in own]
        for number, names in enumerate(operands):
            for slot, name in enumerate(names, start=1):
                if name in maker:
                    self.users[maker[name]].append((number, slot))
                    self.makers[number].append((maker[name], slot))
        outside = of.outside(region)
        #: The keys from level 0 on.
        self.levels: list[list[int]] = [own]
        for _ in range(LEVELS - 1):
            old = self.levels[-1]
            new = []
            for key, names, uses in zip(old, operands, self.users, strict=True):
                above = tuple([old[maker[n]] if n in maker else outside[n] for n in names])
                below = tuple(sorted([(old[user], slot) for user, slot in uses]))
                new.append(of.keys[key, above, below])
            self.levels.append(new)

    def heads(self, left: Iterable[int]) -> list[Hashable]:
        """Return weak keys of some lines: the class, the callee, and the layout of new memory."""
        keys: list[Hashable] = [None] * len(self.lines)
        for number in left:
            keys[number] = self._of.head(self.lines[number])
        return keys

    def relations(self, side: int, known: Mapping[int, int]) -> list[Hashable]:
        """Return keys by known neighbours: users of a line's results, else makers of its operands.

        ``known`` has the number of the pair for each matched line. ``side``, the program's number,
        keeps lines without known neighbours unequal.
        """
        keys: list[Hashable] = []
        for number, kind in enumerate(self.kind):
            key = [(slot, known[n]) for n, slot in self.users[number] if n in known]
            key = key or [(-slot, known[n]) for n, slot in self.makers[number] if n in known]
            keys.append((kind, *sorted(key)) if key else (side, number))
        return keys


def own_lines(region: ir.Region) -> list[tuple[int, ir.AnyLine]]:
    """Return a region's lines with their positions, except kernels, which are matched apart."""
    rows = enumerate(region.body)
    return [(n, line) for n, line in rows if not declares(line)]


def _operands(does: ir.Effects) -> list[str]:
    names = (does.uses, does.reads, does.writes, does.kills, does.takes, does.peeks)
    return list(chain.from_iterable(names))


_MEMORY: Final = "memory"


def _class(line: Any) -> str:
    """Return the class name of a line, or ``_MEMORY`` if it only defines memory."""
    return _MEMORY if ir.Role.DEFINE in own_roles(line) else type(line).__name__
