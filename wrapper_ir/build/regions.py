"""Regions: the bodies of choices and loops, built by calling the user's functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import sympy

from wrapper_ir.build.draft import at_start
from wrapper_ir.build.errors import ArgumentError, ResultError
from wrapper_ir.build.values import Buffer, Number, new_buffer, new_symbol, own
from wrapper_ir.lines import (
    Access,
    BufferArg,
    BufferInput,
    BufferValue,
    CallResult,
    Input,
    Layout,
    NoneValue,
    Region,
    ResultBuffer,
    ResultSymbol,
    ScalarArg,
    ScalarInput,
    ScalarValue,
    SymbolInfo,
    SymbolKind,
    Value,
)
from wrapper_ir.lines.expr import is_relation

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wrapper_ir.build.draft import ProgramDraft

Operand: TypeAlias = Buffer | Number
"""What a region is given."""

Handle: TypeAlias = Buffer | sympy.Symbol
"""What a region's parameter or a line's result is known by."""


def operands_of(
    draft: ProgramDraft, operands: Sequence[Operand]
) -> tuple[BufferArg | ScalarArg, ...]:
    """Operands as lines say them: regions read them."""
    return tuple(operand_of(draft, operand) for operand in operands)


def operand_of(draft: ProgramDraft, operand: Operand) -> BufferArg | ScalarArg:
    """One operand."""
    if isinstance(operand, Buffer):
        return BufferArg(own(draft, operand, Buffer).name, Access.READ)
    return ScalarArg(operand)


def build_region(
    draft: ProgramDraft, operands: Sequence[Operand], body: Callable[..., Any]
) -> tuple[Region, bool]:
    """The region that ``body`` makes when it is called with handles of the region's parameters.

    What it returns, one value or a tuple of them, are the region's results; also gives whether it
    was a tuple.
    """
    builds: object = body
    if not callable(builds):
        raise ArgumentError(callee="a region", reason=f"{builds!r} is no function that builds it")
    params: list[Input] = []
    handles: list[Handle] = []
    for operand in operands:
        if isinstance(operand, Buffer):
            buffer = new_buffer(draft, None, at_start(operand.layout), "p")
            params.append(BufferInput(buffer.name))
            handles.append(buffer)
        else:
            found = new_symbol(draft, None, SymbolInfo(kind_of(operand)))
            draft.bound.add(found.name)
            params.append(ScalarInput(found.name))
            handles.append(found)
    with draft.region() as lines:
        given = body(*handles)
    is_many = isinstance(given, (tuple, list))
    results = tuple(value_of(draft, value) for value in (given if is_many else (given,)))
    return Region(tuple(params), tuple(lines), results), is_many


def value_of(draft: ProgramDraft, given: object) -> Value:
    """One result.

    Raises:
        ArgumentError: it is neither a buffer nor a number nor ``None``.
    """
    if given is None:
        return NoneValue()
    if isinstance(given, Buffer):
        return BufferValue(own(draft, given, Buffer).name)
    if isinstance(given, (bool, int, float, complex, sympy.Basic)):
        return ScalarValue(given)
    raise ArgumentError(callee="results", reason=f"{given!r} cannot be one")


def define_results(
    draft: ProgramDraft, callee: str, values: Sequence[Value | Operand], lead: tuple[Any, ...] = ()
) -> tuple[tuple[CallResult, ...], list[Handle]]:
    """Results like ``values``, in buffers and symbols of their own.

    Args:
        draft: The program.
        callee: What gives them, for errors.
        values: What they are like: results of a region, or what a loop carries.
        lead: Sizes before each one's own.

    Raises:
        ResultError: one is ``None``, which no name can be given to.
    """
    found: list[CallResult] = []
    handles: list[Handle] = []
    paths = [()] if len(values) == 1 else [(index,) for index in range(len(values))]
    for path, value in zip(paths, values, strict=True):
        if isinstance(value, (BufferValue, Buffer)):
            name = value.buffer if isinstance(value, BufferValue) else value.name
            like = draft.buffers[name]
            layout = at_start(like)
            if lead:
                layout = Layout.contiguous(like.dtype, (*lead, *like.size), like.device)
            buffer = new_buffer(draft, None, layout)
            found.append(ResultBuffer(buffer.name, path))
            handles.append(buffer)
        elif isinstance(value, NoneValue):
            raise ResultError(callee=callee, reason="a region gives none, which is no value")
        else:
            number = value.value if isinstance(value, ScalarValue) else value
            known = new_symbol(draft, None, SymbolInfo(kind_of(number), unbacked=True))
            draft.bound.add(known.name)
            found.append(ResultSymbol(known.name, path))
            handles.append(known)
    return tuple(found), handles


def kind_of(value: object) -> SymbolKind:
    """Return the kind of symbol that can hold a number."""
    if is_relation(value) and not isinstance(value, sympy.Symbol):
        return SymbolKind.BOOL
    if isinstance(value, (float, complex)):
        return SymbolKind.FLOAT
    is_real = isinstance(value, sympy.Expr) and value.is_integer is not True
    return SymbolKind.FLOAT if is_real else SymbolKind.INT
