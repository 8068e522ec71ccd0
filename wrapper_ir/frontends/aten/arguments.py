"""Arguments of ops: values of nodes as arguments of lines, each with the access of its schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import sympy
import torch

from wrapper_ir.frontends.aten.state import SYMBOLIC, Ref, UnsupportedNodeError, to_device, to_dtype
from wrapper_ir.lines.args import (
    Access,
    Arg,
    BufferArg,
    DeviceArg,
    DTypeArg,
    EnumArg,
    EnumKind,
    ListArg,
    NamedArg,
    NoneArg,
    ScalarArg,
    StringArg,
)
from wrapper_ir.lines.layout import Device

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wrapper_ir.frontends.aten.state import State
    from wrapper_ir.lines.schema import OpSchema, SchemaArg

__all__ = ["convert_arguments"]

_NUMBERS: Final = (bool, int, float, complex, sympy.Basic, *SYMBOLIC)

#: Ops that write every element of their first argument without a look at it; schemas do not tell.
_OVERWRITING: Final = ("aten::copy_", "aten::fill_", "aten::zero_")


def convert_arguments(
    state: State, schema: OpSchema, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[tuple[Arg, ...], tuple[NamedArg, ...]]:
    """Return the arguments of a call, with what the schema says is done to them.

    Raises:
        UnsupportedNodeError: One has no place in the schema, or no form in the IR.
    """
    positional = schema.positional
    if len(args) > len(positional):
        raise UnsupportedNodeError(f"{len(args)} arguments for {len(positional)} parameters")
    pairs = zip(positional, args, strict=False)
    ordered = tuple(_declared(state, schema, declared, value) for declared, value in pairs)
    named = []
    for name, value in kwargs.items():
        declared = schema.arg(name)
        if declared is None:
            raise UnsupportedNodeError(f"the schema has no argument {name!r}")
        named.append((name, _declared(state, schema, declared, value)))
    return ordered, tuple(named)


def _declared(state: State, schema: OpSchema, declared: SchemaArg, value: Any) -> Arg:
    try:
        return _convert(state, value, declared.type.base, _access(schema, declared))
    except UnsupportedNodeError as error:
        raise UnsupportedNodeError(f"argument {declared.name!r}: {error}") from None


def _access(schema: OpSchema, declared: SchemaArg) -> Access:
    if not declared.type.writes:
        return Access.READ
    overwrites = declared.keyword_only or schema.name.partition(".")[0] in _OVERWRITING
    return Access.WRITE if overwrites else Access.READ_WRITE


def _convert(state: State, value: Any, base: str, access: Access) -> Arg:
    if isinstance(value, (list, tuple, torch.Size)):
        return ListArg(tuple(_convert(state, item, base, access) for item in value))
    if isinstance(value, Ref):
        if access.writes:
            state.written.add(value.name)
        return BufferArg(value.name, access)
    if value is None:
        return NoneArg()
    if isinstance(value, _NUMBERS):
        return ScalarArg(_number(state, value, base))
    if base == "Device" and isinstance(value, str):
        return DeviceArg(Device.parse(value))
    return _plain(value)


def _plain(value: Any) -> Arg:
    """Return an argument that is neither a tensor nor a number."""
    if isinstance(value, str):
        return StringArg(value)
    if isinstance(value, torch.dtype):
        return DTypeArg(to_dtype(value))
    if isinstance(value, torch.device):
        return DeviceArg(to_device(value))
    if isinstance(value, torch.layout):
        return EnumArg(EnumKind.LAYOUT, str(value).removeprefix("torch."))
    if isinstance(value, torch.memory_format):
        return EnumArg(EnumKind.MEMORY_FORMAT, str(value).removeprefix("torch."))
    raise UnsupportedNodeError(f"a value of type {type(value).__name__} is no argument of a line")


def _number(state: State, value: Any, base: str) -> Any:
    """Return a number in the schema's type: torch takes True for an int, and 1 for a bool."""
    if isinstance(value, bool) and base in ("int", "SymInt"):
        return int(value)
    if isinstance(value, int) and base in ("bool", "SymBool"):
        return bool(value)
    if isinstance(value, bool) and base in ("float", "SymFloat"):
        return float(value)
    return state.scalar(value)
