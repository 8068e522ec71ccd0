"""Programs under other names: of buffers, kernels and symbols.

Which fields hold names is read off their types, as roles are, so a new line needs no edit here.
What is text for people (comments, messages, labels) keeps its words.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Final, TypeVar, cast

import sympy

from wrapper_ir.lines.base import Role
from wrapper_ir.lines.control import Region
from wrapper_ir.lines.expr import real_symbol, symbol
from wrapper_ir.lines.program import FrozenMap, Program
from wrapper_ir.lines.roles import NAMED_FIELDS, NameField, PerClass

T = TypeVar("T")

#: What names of a role are names of, where not of buffers or objects, which share theirs. Library
#: ops have none but their own.
_TABLES: Final = {
    Role.DEFINE_SYMBOL: "symbols",
    Role.CALL: "kernels",
    Role.DECLARE: "kernels",
    Role.CALL_OP: "",
    Role.DECLARE_OP: "",
}


class Renaming:
    """Gives values with other names; equal parts come back as they are.

    Args:
        buffers: The new name of a buffer, or of an object: they share no names.
        kernels: The new name of a kernel; library ops have none but their own.
        symbols: The new name of a symbol.
    """

    def __init__(
        self,
        buffers: Callable[[str], str],
        kernels: Callable[[str], str],
        symbols: Callable[[str], str],
    ) -> None:
        self._tables = {"buffers": buffers, "kernels": kernels, "symbols": symbols}
        self._exprs: dict[sympy.Basic, sympy.Basic] = {}

    def program(self, program: Program) -> Program:
        """The program, its tables in the order that they have."""
        buffers, symbols = self._tables["buffers"], self._tables["symbols"]
        region: Region = self.value(program.region)
        return program.replace(
            inputs=region.params,
            body=region.body,
            results=region.results,
            buffers=FrozenMap({buffers(n): self.value(v) for n, v in program.buffers.items()}),
            symbols=FrozenMap({symbols(n): info for n, info in program.symbols.items()}),
            constants=FrozenMap({buffers(n): self.value(v) for n, v in program.constants.items()}),
            objects=FrozenMap({buffers(n): value for n, value in program.objects.items()}),
            data={buffers(n): value for n, value in program.data.items()},
        )

    def value(self, value: T) -> T:
        """A line, or any part of one."""
        return cast("T", self._value(value))

    def _value(self, value: Any) -> Any:
        if isinstance(value, sympy.Basic):
            return self._expr(value)
        if type(value) is tuple:
            items = tuple(map(self._value, value))
            return value if all(map(_is, items, value)) else items
        if not dataclasses.is_dataclass(value) or isinstance(value, type):
            return value
        changes = {}
        for field in NAMED_FIELDS[type(value)]:
            old = getattr(value, field.name)
            new = self._named(old, field, value) if field.roles else self._value(old)
            if new is not old:
                changes[field.name] = new
        return dataclasses.replace(value, **changes) if changes else value

    def _named(self, value: Any, field: NameField, part: Any) -> Any:
        """Return the value of a field, a name or several, under other names."""
        table = next((_TABLES.get(role, "buffers") for role in field.among(part)), "")
        if not value or not table:
            return value
        rename = self._tables[table]
        if field.many:
            return tuple(map(rename, value))
        new = rename(value)
        return value if new == value else new

    def _expr(self, expr: sympy.Basic) -> sympy.Basic:
        found = self._exprs.get(expr)
        if found is None:
            rename = self._tables["symbols"]
            pairs = {
                s: (symbol if s.is_integer else real_symbol)(rename(s.name))
                for s in expr.free_symbols
            }
            found = self._exprs[expr] = expr.xreplace(pairs)
        return found


def _is(a: object, b: object) -> bool:
    return a is b


def name_fields(cls: type) -> dict[str, str | None]:
    """Return the fields of a class that names can be in, each with what it names.

    That is ``buffers``, ``kernels`` or ``symbols``, or None where one has to look inside.
    """
    return _NAME_TABLES[cls]


def _name_tables(cls: type) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for field in NAMED_FIELDS[cls]:
        roles = [role if isinstance(role, Role) else role.role for role in field.roles]
        table = _TABLES.get(roles[0], "buffers") if roles else None
        if table != "":
            found[field.name] = table
    return found


_NAME_TABLES: Final = PerClass(_name_tables)
