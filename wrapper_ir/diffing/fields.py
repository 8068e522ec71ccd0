"""Which parts of two values differ, named as a reader would name them."""

from __future__ import annotations

import dataclasses
import enum
from typing import TYPE_CHECKING, Any, Final, TypeVar

import sympy

from wrapper_ir.diffing.model import FieldChange
from wrapper_ir.lines import (
    BufferArg,
    BufferValue,
    Device,
    DeviceArg,
    DTypeArg,
    EnumArg,
    Layout,
    ListArg,
    NoneArg,
    NoneValue,
    ObjectArg,
    Region,
    ScalarArg,
    ScalarValue,
    StringArg,
)
from wrapper_ir.lines.expr import scalar_key
from wrapper_ir.lines.rename import name_fields
from wrapper_ir.text.item_print import ItemPrinter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wrapper_ir.lines import Program
    from wrapper_ir.lines.rename import Renaming

__all__ = ["Fields"]

T = TypeVar("T")

_ARGS: Final = (
    *(BufferArg, ScalarArg, ObjectArg, NoneArg, StringArg),
    *(DTypeArg, DeviceArg, EnumArg, ListArg),
)
_VALUES: Final = (BufferValue, ScalarValue, NoneValue)
_NUMBERS: Final = (bool, int, float, complex, sympy.Basic)
_MARKS: Final = {"buffers": "%", "kernels": "@", "symbols": ""}


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

    def of(self, old: Any, new: Any, name: str = "") -> Iterator[FieldChange]:
        """The parts of two values, of lines say, that are not the same.

        Definitions count by the layouts that they have, which are not looked at here. Nor are
        regions.
        """
        yield from self._parts(old, self._renaming.value(old), new, name)

    def renamed(self, value: T) -> T:
        """A part of the first program with the names of the second."""
        return self._renaming.value(value)

    def _parts(self, old: Any, renamed: Any, new: Any, name: str) -> Iterator[FieldChange]:
        if _same(renamed, new) or isinstance(new, Region):
            return
        if type(renamed) is not type(new) or isinstance(new, (*_ARGS, *_VALUES, Device)):
            yield self._whole(old, new, name, "")
        elif type(new) is tuple:
            if len(new) != len(renamed):
                yield self._whole(old, new, name, "")
                return
            for number, (was, said, is_) in enumerate(zip(old, renamed, new, strict=True)):
                yield from self._parts(was, said, is_, f"{name}[{number}]")
        elif dataclasses.is_dataclass(new):
            yield from self._dataclass(old, renamed, new, name)
        else:
            yield self._whole(old, new, name, "")

    def _dataclass(self, old: Any, renamed: Any, new: Any, name: str) -> Iterator[FieldChange]:
        tables = name_fields(type(new))
        for field in dataclasses.fields(new):
            if not field.init or field.name in ("origin", "out", "symbol"):
                continue
            inner = f"{name}.{field.name}" if name else field.name
            was, said, is_ = (getattr(value, field.name) for value in (old, renamed, new))
            table = tables.get(field.name)
            if table is None:
                yield from self._parts(was, said, is_, inner)
            elif said != is_:
                yield self._whole(was, is_, inner, _MARKS[table])

    def layouts(self, old: Layout | None, new: Layout | None) -> Iterator[FieldChange]:
        """The parts of two layouts that are not the same."""
        if old is None or new is None:
            if old is not new:
                before = "?" if old is None else self._before.layout(old)
                after = "?" if new is None else self._after.layout(new)
                yield FieldChange("layout", before, after)
            return
        found = list(self.of(old, new))
        if old.is_contiguous and new.is_contiguous:
            # Row-major strides follow from the sizes, so they are no news.
            found = [f for f in found if not f.name.startswith("stride")]
        yield from found

    def _whole(self, old: Any, new: Any, name: str, mark: str) -> FieldChange:
        before, after = _shown(self._before, old, mark), _shown(self._after, new, mark)
        return FieldChange(name, before, after)


def _same(a: Any, b: Any) -> bool:
    if isinstance(b, _NUMBERS) and isinstance(a, _NUMBERS):
        return scalar_key(a) == scalar_key(b)
    return type(a) is type(b) and bool(a == b)


def _shown(items: ItemPrinter, value: Any, mark: str = "") -> str:
    """A value as the text form has it."""
    if isinstance(value, str):
        return mark + value
    if isinstance(value, tuple):
        return f"[{', '.join(_shown(items, item, mark) for item in value)}]"
    if isinstance(value, enum.Enum):
        return str(value.value)  # that of a dtype is its short name
    return _shown_part(items, value)


def _shown_part(items: ItemPrinter, value: Any) -> str:
    if isinstance(value, _ARGS):
        return items.arg(value)
    if isinstance(value, _VALUES):
        return items.value(value)
    if isinstance(value, _NUMBERS):
        return items.scalar(value)
    if isinstance(value, Layout):
        return items.layout(value)
    if isinstance(value, Region):
        return "{...}"  # as many as there are
    if dataclasses.is_dataclass(value) and not isinstance(value, (type, Device)):
        fields = (f for f in dataclasses.fields(value) if f.init and f.name != "origin")
        inner = ", ".join(f"{f.name}={_shown(items, getattr(value, f.name))}" for f in fields)
        return f"{type(value).__name__}({inner})"
    return "none" if value is None else str(value)
