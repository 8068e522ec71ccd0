"""Differences between two values, by the declared fields of their classes.

A new class of lines, arguments or sources needs no change here: its fields are compared one by one,
and those that define a name not at all, since what things are called does not count.
"""

from __future__ import annotations

import dataclasses
import enum
from typing import TYPE_CHECKING, Any, Final, TypeVar, get_args

import sympy

from wrapper_ir.diffing.model import FieldChange
from wrapper_ir.lines import Arg, Device, Layout, Region, Value
from wrapper_ir.lines.base import Role
from wrapper_ir.lines.expr import scalar_key
from wrapper_ir.lines.roles import NAMED_FIELDS, PerClass
from wrapper_ir.text.item_print import ItemPrinter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from wrapper_ir.lines import Program
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
        Arg: items.arg,
        Value: items.value,
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
