"""Programs under other names: of buffers, kernels and symbols.

Which fields hold names is read off their types, as roles are, so a new line needs no edit here.
What is text for people (comments, messages, labels) keeps its words.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Final, TypeVar, cast, get_args, get_origin, get_type_hints

import sympy

from wrapper_ir.lines.args import BufferArg, ObjectArg, ResultBuffer, ResultObject
from wrapper_ir.lines.base import Role
from wrapper_ir.lines.control import ObjectInput, Region
from wrapper_ir.lines.expr import real_symbol, symbol
from wrapper_ir.lines.kernels import KernelCall, KernelDefinition, TorchOp
from wrapper_ir.lines.program import Constant, FrozenMap, Program

T = TypeVar("T")

#: Names in fields without a role: what a call does to a buffer is said beside its name.
_NAMES: Final = {
    (BufferArg, "buffer"): "buffers",
    (ObjectArg, "object"): "buffers",
    (ObjectInput, "object"): "buffers",
    (ResultBuffer, "of"): "buffers",
    (ResultObject, "object"): "buffers",
    (KernelCall, "kernel"): "kernels",
    (KernelDefinition, "name"): "kernels",
    (Constant, "tied_to"): "buffers",
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
        for name, table in name_fields(type(value)).items():
            old = getattr(value, name)
            new = self._value(old) if table is None else self._named(old, table)
            if new is not old:
                changes[name] = new
        if isinstance(value, KernelDefinition) and isinstance(value.source, TorchOp):
            return value
        return dataclasses.replace(value, **changes) if changes else value

    def _named(self, value: Any, table: str) -> Any:
        if value is None:
            return None
        if type(value) is tuple:
            return tuple(map(self._tables[table], value))
        new = self._tables[table](value)
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
    """The fields of a class that names may be in, each with what it names.

    That is ``buffers``, ``kernels`` or ``symbols``, or None where one has to look inside.
    """
    found = _FIELDS.get(cls)
    if found is None:
        hints = get_type_hints(cls, include_extras=True, localns={"AnyLine": object})
        found = _FIELDS[cls] = {}
        for field in dataclasses.fields(cls):
            if field.init and field.name != "origin":
                table = _NAMES.get((cls, field.name)) or _table(hints[field.name])
                if table or hints[field.name] not in _PLAIN:
                    found[field.name] = table
    return found


_FIELDS: Final[dict[type, dict[str, str | None]]] = {}
_PLAIN: Final = (str, int, bool, float, complex)


def _table(hint: Any) -> str | None:
    for extra in getattr(hint, "__metadata__", ()):
        if isinstance(extra, Role):
            return "symbols" if extra is Role.DEFINE_SYMBOL else "buffers"
    if get_origin(hint) is tuple:
        return _table(get_args(hint)[0])
    return None
