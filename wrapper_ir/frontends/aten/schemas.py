"""Torch's operators: their schemas, which overload takes a number, what results may be views."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import sympy
import torch

from wrapper_ir.frontends.aten.state import SYMBOLIC
from wrapper_ir.lines.args import Relation
from wrapper_ir.lines.schema import OpSchema, SchemaArg, SchemaError, SchemaType, parse_schema

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = [
    "is_op",
    "may_be_views",
    "number_overload",
    "relation_of",
    "schema_of",
    "type_at",
]

Path = tuple[int | str, ...]

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


def schema_text(op: Any) -> str:
    """Return the schema of an op as text."""
    return str(op._schema)  # noqa: SLF001 - as above


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


def number_overload(op: Any, args: Sequence[Any]) -> Any:
    """Return the overload of an op that takes numbers where numbers are given for tensors.

    Python's dispatcher takes ``mul.Tensor(x, 2)`` and makes a tensor of the number. A program says
    what it means instead: the overload that takes a number there computes the same. ``None`` where
    there is no such overload.
    """
    schema = schema_of(op)
    assert schema is not None
    positions = [
        index
        for index, (declared, given) in enumerate(zip(schema.args, args, strict=False))
        if declared.type.is_tensor and not declared.type.is_list and _is_number(given)
    ]
    if not positions:
        return op
    packet = op.overloadpacket
    for name in packet.overloads():
        candidate = getattr(packet, name)
        other = schema_of(candidate)
        if other is not None and _fits(other.args, schema.args, positions):
            return candidate
    return None


def _is_number(value: object) -> bool:
    return isinstance(value, (bool, int, float, complex, sympy.Basic, *SYMBOLIC))


def _fits(
    candidate: Sequence[SchemaArg], wanted: Sequence[SchemaArg], positions: Sequence[int]
) -> bool:
    """Return whether the schemas differ only in numbers for tensors at the positions."""
    if len(candidate) != len(wanted):
        return False
    for index, (one, other) in enumerate(zip(candidate, wanted, strict=True)):
        if one.name != other.name:
            return False
        if index in positions:
            if (one.type.base, one.type.suffix) != ("Scalar", ""):
                return False
        elif (one.type.base, one.type.suffix) != (other.type.base, other.type.suffix):
            return False
    return True
