"""Arguments and results of calls: Python values to lines, by what is declared of the callee."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import sympy

from wrapper_ir.build.errors import ArgumentError, LayoutError, ResultError
from wrapper_ir.build.values import (
    Buffer,
    Number,
    Object,
    Result,
    buffers_in,
    device_of,
    dtype_of,
    layout_of,
    new_buffer,
    new_object,
    own,
)
from wrapper_ir.lines import (
    Access,
    Arg,
    BufferArg,
    BufferParam,
    Device,
    DeviceArg,
    DType,
    DTypeArg,
    EnumArg,
    EnumKind,
    ListArg,
    NamedArg,
    NoneArg,
    ObjectArg,
    OpResult,
    OpSchema,
    Param,
    Relation,
    ResultBuffer,
    ResultObject,
    ResultSymbol,
    ScalarArg,
    SchemaArg,
    SchemaType,
    StringArg,
    UnsupportedExprError,
)

if TYPE_CHECKING:
    from wrapper_ir.build.draft import ProgramDraft

_ENUMS = {"Layout": EnumKind.LAYOUT, "MemoryFormat": EnumKind.MEMORY_FORMAT}

Given = Buffer | Object | Number | None | str | DType | Device | Sequence[Any]
"""What a call takes for an argument."""


def kernel_args(
    draft: ProgramDraft, name: str, params: tuple[Param, ...], given: Sequence[Given]
) -> tuple[Arg, ...]:
    """Arguments of a kernel, with the access that its parameters declare.

    Raises:
        ArgumentError: their number or kind is wrong.
    """
    if len(given) != len(params):
        names = ", ".join(param.name for param in params)
        raise ArgumentError(
            callee=f"kernel '{name}'",
            reason=f"{len(given)} arguments are given for {len(params)} parameters ({names})",
        )
    return tuple(_kernel_arg(draft, name, p, value) for p, value in zip(params, given, strict=True))


def _kernel_arg(draft: ProgramDraft, name: str, param: Param, value: Given) -> Arg:
    if isinstance(param, BufferParam):
        if not isinstance(value, Buffer):
            raise ArgumentError(
                callee=f"kernel '{name}'", reason=f"parameter '{param.name}' takes a buffer"
            )
        return BufferArg(own(draft, value, Buffer).name, param.access)
    if isinstance(value, Buffer) or not _is_number(value):
        raise ArgumentError(
            callee=f"kernel '{name}'", reason=f"parameter '{param.name}' takes a number"
        )
    return ScalarArg(value)


def op_args(
    draft: ProgramDraft, schema: OpSchema, given: Sequence[Given], named: Mapping[str, Given]
) -> tuple[tuple[Arg, ...], tuple[NamedArg, ...]]:
    """Arguments of an op, of the kinds and with the access that its schema declares.

    Raises:
        ArgumentError: there are too many, or a name is unknown, or a value fits no type.
    """
    positional = schema.positional
    if len(given) > len(positional):
        raise ArgumentError(
            callee=schema.name,
            reason=f"{len(given)} arguments are given by position, it takes {len(positional)}",
        )
    args = tuple(
        _op_arg(draft, schema, declared, value)
        for declared, value in zip(positional, given, strict=False)
    )
    kwargs = []
    for name, value in named.items():
        declared = schema.arg(name)
        if declared is None:
            names = ", ".join(arg.name for arg in schema.args)
            raise ArgumentError(
                callee=schema.name, reason=f"it has no argument '{name}'", hint=f"it has {names}"
            )
        kwargs.append((name, _op_arg(draft, schema, declared, value)))
    return args, tuple(kwargs)


def _op_arg(draft: ProgramDraft, schema: OpSchema, declared: SchemaArg, value: Given) -> Arg:
    access = Access.READ
    if declared.type.writes:
        access = Access.WRITE if declared.keyword_only else Access.READ_WRITE
    try:
        return _arg(draft, declared.type.base, access, value)
    except (TypeError, LayoutError, UnsupportedExprError) as error:
        raise ArgumentError(
            callee=schema.name, reason=f"argument '{declared.name}' cannot be {value!r}: {error}"
        ) from None


def _arg(draft: ProgramDraft, base: str, access: Access, value: Given) -> Arg:
    if value is None:
        return NoneArg()
    if isinstance(value, Buffer):
        return BufferArg(own(draft, value, Buffer).name, access)
    if isinstance(value, Object):
        return ObjectArg(own(draft, value, Object).name)
    if base == "ScalarType" and isinstance(value, (str, DType)):
        return DTypeArg(dtype_of(value))
    if base == "Device" and isinstance(value, (str, Device)):
        return DeviceArg(device_of(value))
    if base in _ENUMS and isinstance(value, str):
        return EnumArg(_ENUMS[base], value)
    if isinstance(value, str):
        return StringArg(value)
    if isinstance(value, (list, tuple)):
        return ListArg(tuple(_arg(draft, base, access, item) for item in value))
    return ScalarArg(value)


def op_results(
    draft: ProgramDraft,
    schema: OpSchema,
    results: Sequence[Any],
    args: tuple[Arg, ...],
    kwargs: tuple[NamedArg, ...],
    *,
    may_alias: bool,
) -> tuple[tuple[OpResult, ...], list[Buffer | Object | sympy.Symbol]]:
    """Results of an op as lines say them, and the handles for them; ``None`` skips one.

    Raises:
        ResultError: they are more than the op returns.
    """
    returns = schema.returns
    is_many = schema.returns_tuple or (len(returns) == 1 and returns[0].is_list)
    if not is_many and len(results) > len(returns):
        reason = f"{len(results)} results are asked for, it returns {len(returns)}"
        raise ResultError(callee=schema.name, reason=reason)
    bound = _bound(schema, args, kwargs)
    device = _device(draft, bound)
    found: list[OpResult] = []
    handles: list[Buffer | Object | sympy.Symbol] = []
    for index, given in enumerate(results):
        if given is None:
            continue
        result = given if isinstance(given, Result) else Result(given)
        path = result.path
        if path is None:
            path = (index,) if is_many else ()
        if isinstance(result.layout, sympy.Symbol):
            found.append(ResultSymbol(result.layout.name, path))
            handles.append(result.layout)
            continue
        if isinstance(result.layout, str):
            made = new_object(draft, result.name, result.layout)
            found.append(ResultObject(made.name, made.class_name, path))
            handles.append(made)
            continue
        buffer = new_buffer(draft, result.name, layout_of(result.layout, device=device))
        type_ = _type_at(schema, path)
        relation, of = _relation(type_, bound, result.relation, may_alias=may_alias)
        found.append(ResultBuffer(buffer.name, path, relation, of))
        handles.append(buffer)
    return tuple(found), handles


def _bound(
    schema: OpSchema, args: tuple[Arg, ...], kwargs: tuple[NamedArg, ...]
) -> list[tuple[SchemaArg, Arg]]:
    named = [(schema.arg(name), arg) for name, arg in kwargs]
    pairs = [*zip(schema.positional, args, strict=False)]
    return pairs + [(declared, arg) for declared, arg in named if declared is not None]


def _type_at(schema: OpSchema, path: tuple[int | str, ...]) -> SchemaType | None:
    first = path[0] if path else 0
    position = first if schema.returns_tuple and isinstance(first, int) else 0
    return schema.returns[position] if 0 <= position < len(schema.returns) else None


def _relation(
    type_: SchemaType | None,
    bound: list[tuple[SchemaArg, Arg]],
    given: Relation | None,
    *,
    may_alias: bool,
) -> tuple[Relation, tuple[str, ...]]:
    """Return how a result relates to the arguments: as the call says, or else the schema."""
    sets = type_.alias_sets if type_ is not None else frozenset()
    relation = given
    if relation is None:
        relation = Relation.ALIAS if sets else Relation.FRESH
        relation = Relation.MAY_ALIAS if may_alias else relation
        if relation is Relation.FRESH and any(isinstance(arg, ObjectArg) for _, arg in bound):
            relation = Relation.HELD
    if relation in (Relation.FRESH, Relation.HELD):
        return relation, ()
    sources = [
        buffer
        for declared, arg in bound
        if not sets or "*" in sets or sets & declared.type.alias_sets
        for buffer in buffers_in(arg)
    ]
    return relation, tuple(dict.fromkeys(sources))


def _device(draft: ProgramDraft, bound: list[tuple[SchemaArg, Arg]]) -> Device | None:
    """Return the default device of the results: that of the arguments."""
    for _, arg in bound:
        if isinstance(arg, DeviceArg):
            return arg.device
    for _, arg in bound:
        for name in buffers_in(arg):
            return draft.buffers[name].device
    return None


def _is_number(value: object) -> bool:
    return isinstance(value, (bool, int, float, complex, sympy.Basic))
