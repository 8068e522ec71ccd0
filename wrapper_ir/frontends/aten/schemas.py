"""Torch's operators: their schemas, arguments and overloads, and what results may be views."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import sympy
import torch

from wrapper_ir.frontends.aten.state import Ref, State, UnsupportedNodeError, to_dtype
from wrapper_ir.frontends.common.ops import SYMBOLIC, plain_argument
from wrapper_ir.lines.args import (
    Access,
    Arg,
    BufferArg,
    DeviceArg,
    DTypeArg,
    ListArg,
    NamedArg,
    NoneArg,
    Relation,
    ScalarArg,
)
from wrapper_ir.lines.layout import Device
from wrapper_ir.lines.schema import OpSchema, SchemaArg, SchemaError, SchemaType, parse_schema

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Path = tuple[int | str, ...]

_NUMBERS: Final = (bool, int, float, complex, sympy.Basic, *SYMBOLIC)

#: Ops that write every element of their first argument without a look at it; schemas do not tell.
_OVERWRITING: Final = ("aten::copy_", "aten::fill_", "aten::zero_")

#: Ops whose schema says "view" and which copy when they must: known only at run time.
_MAY_COPY: Final = frozenset(
    f"aten::{name}"
    for name in (
        *("_autocast_to_full_precision", "_autocast_to_reduced_precision", "conj", "contiguous"),
        *("flatten", "pin_memory", "ravel", "reshape", "reshape_as", "resolve_conj"),
        *("resolve_neg", "to", "unflatten"),
    )
)

#: Ops whose schema says "new" and which return an argument or a view of it when they can. Torch
#: tags some of the kind (``maybe_aliasing_or_mutating``); these it does not.
_MAY_ALIAS: Final = frozenset(
    f"aten::{name}"
    for name in (
        *("_unsafe_view", "broadcast_tensors", "chain_matmul", "combinations", "einsum"),
        *("meshgrid", "sum_to_size", "type_as", "unsafe_split", "unsafe_split_with_sizes"),
        *("_cast_Byte", "_cast_Char", "_cast_Double", "_cast_Float", "_cast_Half", "_cast_Int"),
        *("_cast_Long", "_cast_Short"),
    )
)


def is_op(target: object) -> bool:
    """Return whether a node's target is an overload of an op in torch's registry."""
    return hasattr(target, "overloadpacket") and hasattr(target, "_schema")


@lru_cache(maxsize=8192)
def schema_of(op: Any) -> OpSchema | None:
    """Return the schema of an op; None where it is written in a way that the IR cannot read."""
    text = str(op._schema)  # noqa: SLF001 - what torch's own documentation has one use
    try:
        return parse_schema(text)
    except SchemaError:
        return None


def type_at(schema: OpSchema, path: Path) -> SchemaType | None:
    """Return the type of the result at a path."""
    if not schema.returns:
        return None
    first = path[0] if schema.returns_tuple and path else 0
    return schema.returns[first] if isinstance(first, int) and first < len(schema.returns) else None


def relation_of(
    op: Any, schema: OpSchema, path: Path, sources: Mapping[str, Sequence[str]]
) -> tuple[Relation, tuple[str, ...]]:
    """Return how the result at a path relates to the arguments, and to which buffers.

    Args:
        op: The op.
        schema: Its schema.
        path: The path of a tensor.
        sources: The buffers that each argument holds, by the argument's name.
    """
    type_ = type_at(schema, path)
    sets = type_.alias_sets if type_ is not None else frozenset()
    name = schema.name.partition(".")[0]
    if not sets:
        if may_be_views(op, schema):
            every = dict.fromkeys(b for names in sources.values() for b in names)
            return (Relation.MAY_ALIAS, tuple(every)) if every else (Relation.FRESH, ())
        return Relation.FRESH, ()
    found = [
        buffer
        for arg in schema.args
        if "*" in sets or sets & arg.type.alias_sets
        for buffer in sources.get(arg.name, ())
    ]
    if not found:
        return Relation.FRESH, ()
    relation = Relation.MAY_ALIAS if name in _MAY_COPY else Relation.ALIAS
    return relation, tuple(dict.fromkeys(found))


def may_be_views(op: Any, schema: OpSchema) -> bool:
    """Return whether an op may return its arguments although its schema says otherwise."""
    name = schema.name.partition(".")[0]
    return name in _MAY_ALIAS or torch.Tag.maybe_aliasing_or_mutating in op.tags


# Arguments of calls: values of nodes, each with the access that the schema says.


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
    if isinstance(value, torch.dtype):
        return DTypeArg(to_dtype(value))
    found = plain_argument(value)
    if found is not None:
        return found
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
