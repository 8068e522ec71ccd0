"""Comparing two programs: by the declared fields of classes, and by keys without names."""

from __future__ import annotations

import dataclasses
import enum
from collections import defaultdict
from itertools import chain, count
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar, get_args

import sympy

from wrapper_ir.diffing.model import FieldChange
from wrapper_ir.lines import AnyLine, Arg, Device, Layout, Region, Value, effects
from wrapper_ir.lines.base import Role
from wrapper_ir.lines.expr import scalar_key
from wrapper_ir.lines.expr_printer import COMMUTATIVE
from wrapper_ir.lines.traits import NAMED_FIELDS, PerClass, declares, own_roles
from wrapper_ir.lines.walk import walk_regions
from wrapper_ir.text.item_print import ItemPrinter

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping

    from wrapper_ir.lines import Input, Program
    from wrapper_ir.lines.effects import Effects
    from wrapper_ir.lines.walk import Renaming


T = TypeVar("T")

_NUMBERS: Final = (bool, int, float, complex, sympy.Basic)


#: Roles of names that are defined: what they are called does not count.
_NEW: Final = (Role.DEFINE, Role.DEFINE_OBJECT, Role.DEFINE_SYMBOL)

#: Marks of other names in the text form, where it is not that of buffers; ops are plain words.
_MARKS: Final = {Role.CALL: "@", Role.DECLARE: "@", Role.CALL_OP: ""}


def roles_of(value: object) -> Mapping[str, Role | None]:
    """Return the fields of a line, or of a part, that count, with the roles of names in them."""
    return _ROLES[type(value)]


def _roles(cls: type) -> dict[str, Role | None]:
    fields = dataclasses.fields(cls)
    found: dict[str, Role | None] = {f.name: None for f in fields if f.init and f.name != "origin"}
    for field in NAMED_FIELDS[cls]:
        for role in field.roles[:1]:
            found[field.name] = role if isinstance(role, Role) else role.role
    return found


_ROLES: Final = PerClass(_roles)


class Fields:
    """Compares parts of two programs, the names of the first taken for those of the second.

    Args:
        before: The first program.
        after: The second.
        renaming: From names of the first to names of the second.
    """

    def __init__(self, before: Program, after: Program, renaming: Renaming) -> None:
        self._before = ItemPrinter(before, strict=False)
        self._after = ItemPrinter(after, strict=False)
        self._renaming = renaming

    def renamed(self, value: T) -> T:
        """Return a part of the first program with the names of the second."""
        return self._renaming.value(value)

    def of(self, old: Any, new: Any, name: str = "") -> Iterator[FieldChange]:
        """Yield the parts of two values, of lines say, that are not the same.

        Definitions count by the layouts that they have, which are not looked at here. Nor are
        regions.
        """
        renamed = self._renaming.value(old)
        if _same(renamed, new) or isinstance(new, Region):
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

    def layouts(self, old: Layout | None, new: Layout | None) -> Iterator[FieldChange]:
        """Yield the parts of two layouts that are not the same."""
        if old is None or new is None:
            if old is not new:
                before = "?" if old is None else self._before.layout(old)
                after = "?" if new is None else self._after.layout(new)
                yield FieldChange("layout", before, after)
            return
        follow = old.is_contiguous and new.is_contiguous  # then strides are no news
        yield from (f for f in self.of(old, new) if not (follow and f.name.startswith("stride")))

    def _whole(self, old: Any, new: Any, name: str, mark: str = "") -> FieldChange:
        return FieldChange(name, _shown(self._before, old, mark), _shown(self._after, new, mark))


#: What is shown as a whole, as it is short.
_WHOLE: Final = (*get_args(Arg), *get_args(Value), Device)


def _same(a: Any, b: Any) -> bool:
    if isinstance(b, _NUMBERS) and isinstance(a, _NUMBERS):
        return scalar_key(a) == scalar_key(b)
    return type(a) is type(b) and bool(a == b)


def _shown(items: ItemPrinter, value: Any, mark: str = "") -> str:
    """Return a value as the text form has it."""
    if isinstance(value, str):
        return mark + value
    if isinstance(value, tuple):
        return f"[{', '.join(_shown(items, item, mark) for item in value)}]"
    if isinstance(value, enum.Enum):
        return str(value.value)  # that of a dtype is its short name
    if isinstance(value, Region):
        return "{...}"  # as many as there are
    shown: dict[Any, Callable[[Any], str]] = {
        Arg: items.show,
        Value: items.show,
        _NUMBERS: items.scalar,
        Layout: items.layout,
    }
    for kinds, show in shown.items():
        if isinstance(value, kinds):
            return show(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, (type, Device)):
        fields = (f"{f}={_shown(items, getattr(value, f))}" for f in roles_of(value))
        return f"{type(value).__name__}({', '.join(fields)})"
    return "none" if value is None else str(value)


# Keys by which lines are matched, without names.
#
# Convention: keys have *levels*. At level 0 a key holds a line by itself: its class, layouts,
# numbers and callee. Each level more adds the keys, one level less, of the lines that define its
# operands and of the lines that use what it defines. So lines that look alike are told apart by
# their neighbours, and a change makes keys different only nearby. Weak keys, for lines that have
# changed, hold less than level 0.
#
# All is read off the declared fields of classes, so a new line costs nothing here. Keys are
# numbers; two programs that are compared share one table of them.


LEVELS: Final = 4

Keys: TypeAlias = defaultdict["Hashable", int]
"""A number for each thing, the same for equal ones."""


def new_keys() -> Keys:
    """Return an empty table of keys."""
    return defaultdict(count().__next__)


class ProgramKeys:
    """Makes the keys of one program.

    Args:
        program: The program.
        keys: Shared with the program that it is compared with.
        kernels: A number for each kernel, the same for kernels that are matched.

    Attributes:
        keys: The shared table.
        symbols: What is known of each symbol that is defined, without names.
    """

    def __init__(self, program: Program, keys: Keys, kernels: Mapping[str, int]) -> None:
        self.keys = keys
        self._program = program
        self._kernels = kernels
        self._plans: dict[type, list[tuple[str, Callable[[Any], Hashable]]]] = {}
        self._exprs: dict[sympy.Basic, int] = {}
        self._layouts: dict[Layout | None, int] = {}
        self._digests: dict[int, int] = {}
        self._effects: dict[int, Effects] = {}
        self.buffers = set(program.constants)
        self.symbols: dict[str, Hashable] = {}
        for _, _, region in walk_regions(program):
            for item in (*region.params, *region.body):
                does = self.effects(item)
                self.buffers.update(does.defines)
                for symbol in does.defines_symbols:
                    self.symbols[symbol] = self.head(item, numbers=True)

    def effects(self, item: Input | AnyLine) -> Effects:
        """Return what a line of the program, or a parameter, does; it is looked at once."""
        found = self._effects.get(id(item))
        if found is None:
            found = self._effects[id(item)] = effects(item, self._program)
        return found

    def layout(self, name: str) -> int:
        """Return the key of a buffer's layout."""
        layout = self._program.buffers.get(name)
        found = self._layouts.get(layout)
        if found is None:
            found = self._layouts[layout] = self.keys["layout", self.shape(layout)]
        return found

    def line(self, line: AnyLine) -> int:
        """Return the key of a line by itself."""
        return self.keys["line", self.shape(line)]

    def shape(self, value: Any) -> Hashable:
        """Return a value without the names in it; numbers are told apart by their types too."""
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
        if isinstance(value, Region):
            return self._digest(value)
        if not dataclasses.is_dataclass(value):
            return (kind, repr(value))
        self._plans[kind] = [
            (name, self._shape_of_names(role)) for name, role in roles_of(value).items()
        ]
        return self.shape(value)

    def _shape_of_names(self, role: Role | None) -> Callable[[Any], Hashable]:
        """Return what tells all that is known of a name, or of several, besides the name."""
        symbols = self._program.symbols
        known: dict[Role | None, Callable[[Any], Hashable]] = {
            None: self.shape,
            Role.CALL_OP: self.shape,
            Role.CALL: self._kernels.get,
            Role.DECLARE: self._kernels.get,
            Role.DEFINE: self.layout,
            Role.DEFINE_SYMBOL: lambda name: symbols[name].kind if name in symbols else None,
        }
        return known.get(role, lambda names: len(names) if type(names) is tuple else None)

    def head(self, line: Any, *, numbers: bool = False) -> Hashable:
        """Return a line's class, callee and words, and the layout of memory that it makes.

        With ``numbers`` also those of its parts, such as the dimension whose size is bound.
        """
        parts: list[Hashable] = [_class(line)]
        for name, role in roles_of(line).items():
            value = getattr(line, name)
            if role is Role.CALL:
                parts.append(self._kernels.get(value))
            elif role is Role.DEFINE:
                parts.append(self.layout(value))
            elif isinstance(value, str) and role in (None, Role.CALL_OP):
                parts.append(value)
            elif dataclasses.is_dataclass(value) and not isinstance(value, Region):
                parts.append(type(value).__name__)
                if numbers:
                    inner = (getattr(value, field) for field in roles_of(value))
                    parts += [number for number in inner if isinstance(number, int)]
        return tuple(parts)

    def _digest(self, region: Region) -> int:
        """Return one key for all that is in a region."""
        found = self._digests.get(id(region))
        if found is None:
            lines = tuple(map(self.line, region.body))
            parts = (*map(self.shape, (region.params, region.results)), lines)
            found = self._digests[id(region)] = self.keys[parts]
        return found

    def _expr(self, expr: sympy.Basic) -> int:
        """Return the key of an expression, whatever its symbols are called."""
        found = self._exprs.get(expr)
        if found is None:
            if isinstance(expr, sympy.Symbol):
                parts: Hashable = self.symbols.get(expr.name)
            elif not expr.args:
                parts = str(expr)
            else:
                inner = [self._expr(arg) for arg in expr.args]
                parts = tuple(sorted(inner) if isinstance(expr, COMMUTATIVE) else inner)
            found = self._exprs[expr] = self.keys["expr", type(expr), parts]
        return found

    def outside(self, region: Region) -> dict[str, int]:
        """Return keys of the buffers that a region does not define by lines."""
        keys = self.keys
        nowhere = keys["nowhere"]
        found = defaultdict(lambda: nowhere)
        for name, constant in self._program.constants.items():
            found[name] = keys["constant", constant.qualified_name]
        for param in region.params:
            found.update((n, keys["param", self.layout(n)]) for n in self.effects(param).defines)
        return found


class BodyKeys:
    """The keys of a region's own lines, in their order.

    Args:
        of: The keys of the program.
        region: The region.

    Attributes:
        lines: The lines.
        effects: What each line does.
        levels: Keys from level 0 on.
        kind: Weakest: the class, or that memory is made.
        does: Level 0 of lines that compute something; of others, which look alike, None.
        makers: For each line the lines that define its operands, by slot.
        users: For each line the lines that use what it defines, and in which slot.
    """

    def __init__(self, of: ProgramKeys, region: Region) -> None:
        self._of = of
        self.lines = [line for _, line in own_lines(region)]
        self.effects = [of.effects(line) for line in self.lines]
        own = [of.line(line) for line in self.lines]
        self.kind = [_class(line) for line in self.lines]
        self.does = [
            None if kind == _MEMORY or does.kills else key
            for kind, does, key in zip(self.kind, self.effects, own, strict=True)
        ]
        maker = {name: n for n, each in enumerate(self.effects) for name in each.defines}
        operands = [_operands(each) for each in self.effects]
        self.users: list[list[tuple[int, int]]] = [[] for _ in own]
        self.makers: list[list[tuple[int, int]]] = [[] for _ in own]
        for number, names in enumerate(operands):
            for slot, name in enumerate(names, start=1):
                if name in maker:
                    self.users[maker[name]].append((number, slot))
                    self.makers[number].append((maker[name], slot))
        outside = of.outside(region)
        self.levels = [own]
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
        found: list[Hashable] = [None] * len(self.lines)
        for number in left:
            found[number] = self._of.head(self.lines[number])
        return found

    def relations(self, side: int, known: Mapping[int, int]) -> list[Hashable]:
        """Return keys by known neighbours: users of a line's results, else makers of its operands.

        Args:
            side: Which of two programs this is; lines without known neighbours are never equal.
            known: For lines that are matched, the number of the pair.
        """
        found: list[Hashable] = []
        for number, kind in enumerate(self.kind):
            key = [(slot, known[n]) for n, slot in self.users[number] if n in known]
            key = key or [(-slot, known[n]) for n, slot in self.makers[number] if n in known]
            found.append((kind, *sorted(key)) if key else (side, number))
        return found


def own_lines(region: Region) -> list[tuple[int, AnyLine]]:
    """Return a region's lines with their positions, but for kernels, which are matched apart."""
    rows = enumerate(region.body)
    return [(n, line) for n, line in rows if not declares(line)]


def _operands(does: Effects) -> list[str]:
    names = (does.uses, does.reads, does.writes, does.kills, does.takes, does.peeks)
    return list(chain.from_iterable(names))


_MEMORY: Final = "memory"


def _class(line: Any) -> str:
    """Return the class; all lines that are there to name memory count as one."""
    return _MEMORY if Role.DEFINE in own_roles(line) else type(line).__name__
