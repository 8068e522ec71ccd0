"""Regions of the builder: how they are built, and what they do with their operands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import sympy

import wrapper_ir.lines as ir
from wrapper_ir.build.draft import at_start
from wrapper_ir.build.errors import ArgumentError, ResultError
from wrapper_ir.build.values import (
    Buffer,
    Number,
    new_buffer,
    new_symbol,
    own,
)
from wrapper_ir.lines.expr import is_relation

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wrapper_ir.build.draft import ProgramDraft


Operand: TypeAlias = Buffer | Number
"""An operand of a region."""

Handle: TypeAlias = Buffer | sympy.Symbol
"""A handle of a region's parameter or of a line's result."""


def operand_of(
    draft: ProgramDraft, operand: Operand, access: ir.Access = ir.Access.READ
) -> ir.BufferArg | ir.ScalarArg:
    """Return an operand as an argument."""
    if isinstance(operand, Buffer):
        return ir.BufferArg(own(draft, operand, Buffer).name, access)
    return ir.ScalarArg(operand)


def build_region(
    draft: ProgramDraft, operands: Sequence[Operand], body: Callable[..., Any]
) -> tuple[ir.Region, bool]:
    """Build a region by calling ``body`` with handles of the region's parameters.

    Returns:
        The region, and True if ``body`` returned a tuple of results rather than a single one.
    """
    builds: object = body
    if not callable(builds):
        reason = f"{builds!r} is not a function that builds a region"
        raise ArgumentError(callee="a region", reason=reason)
    params: list[ir.Input] = []
    handles: list[Handle] = []
    for operand in operands:
        if isinstance(operand, Buffer):
            buffer = new_buffer(draft, None, at_start(operand.layout), "p")
            params.append(ir.BufferInput(buffer.name))
            handles.append(buffer)
        else:
            inner = new_symbol(draft, None, ir.SymbolInfo(kind_of(operand)))
            draft.bound.add(inner.name)
            params.append(ir.ScalarInput(inner.name))
            handles.append(inner)
    with draft.region() as lines:
        returned = body(*handles)
    is_many = isinstance(returned, (tuple, list))
    results = tuple(value_of(draft, value) for value in (returned if is_many else (returned,)))
    return ir.Region(tuple(params), tuple(lines), results), is_many


def value_of(draft: ProgramDraft, given: object) -> ir.Value:
    """Return a result of a program or region as a value.

    Raises:
        ArgumentError: It is neither a buffer nor a number nor ``None``.
    """
    if given is None:
        return ir.NoneValue()
    if isinstance(given, Buffer):
        return ir.BufferValue(own(draft, given, Buffer).name)
    if isinstance(given, Number):
        return ir.ScalarValue(given)
    raise ArgumentError(callee="results", reason=f"{given!r} cannot be a result")


def define_results(
    draft: ProgramDraft,
    callee: str,
    values: Sequence[ir.Value | Operand],
    aliases: Sequence[Sequence[str]],
    lead: tuple[Any, ...] = (),
) -> tuple[tuple[ir.CallResult, ...], list[Handle]]:
    """Define results like ``values``, in new buffers and symbols.

    Args:
        draft: The program.
        callee: The name to use in error messages.
        values: The results of a region, or the values that a loop carries.
        aliases: For each of them, the operands that the result may alias. Others are fresh.
        lead: Leading sizes to add to each result.

    Raises:
        ResultError: A value is ``None``.
    """
    defined: list[ir.CallResult] = []
    handles: list[Handle] = []
    paths = [()] if len(values) == 1 else [(index,) for index in range(len(values))]
    for path, value, of in zip(paths, values, aliases, strict=True):
        if isinstance(value, (ir.BufferValue, Buffer)):
            layout = at_start(
                draft.buffers[value.buffer if isinstance(value, ir.BufferValue) else value.name]
            )
            if lead:
                layout = ir.Layout.contiguous(layout.dtype, (*lead, *layout.size), layout.device)
            buffer = new_buffer(draft, None, layout)
            relation = ir.Relation.MAY_ALIAS if of else ir.Relation.FRESH
            defined.append(ir.ResultBuffer(buffer.name, path, relation, tuple(of)))
            handles.append(buffer)
        elif isinstance(value, ir.NoneValue):
            raise ResultError(callee=callee, reason="a region returns None, which is not a value")
        else:
            number = value.value if isinstance(value, ir.ScalarValue) else value
            symbol = new_symbol(draft, None, ir.SymbolInfo(kind_of(number), unbacked=True))
            draft.bound.add(symbol.name)
            defined.append(ir.ResultSymbol(symbol.name, path))
            handles.append(symbol)
    return tuple(defined), handles


# What regions do with their operands.


def passed(
    draft: ProgramDraft,
    operands: Sequence[Operand],
    regions: Sequence[ir.Region],
    carried: Sequence[set[int]] = (),
) -> tuple[ir.BufferArg | ir.ScalarArg, ...]:
    """Return operands as arguments, passed for writing if a region writes their parameters.

    Args:
        draft: The program.
        operands: The operands.
        regions: The regions that take them.
        carried: For each value that a loop carries, the positions of the operands that it may alias
            after a round, which the next one may write.
    """
    changed = {
        position
        for region in regions
        for position, param in enumerate(region.params)
        if isinstance(param, ir.BufferInput) and draft.is_written(param.name)
    }
    for _ in carried:
        changed.update(*(each for position, each in enumerate(carried) if position in changed))
    accesses = dict.fromkeys(changed, ir.Access.READ_WRITE)
    return tuple(
        operand_of(draft, operand, accesses.get(position, ir.Access.READ))
        for position, operand in enumerate(operands)
    )


def returned(draft: ProgramDraft, region: ir.Region) -> list[set[int]]:
    """Return, for each result of a region, the positions of the parameters that it may alias."""
    positions = {
        param.name: position
        for position, param in enumerate(region.params)
        if isinstance(param, ir.BufferInput)
    }
    return [
        (
            {positions[root] for root in draft.roots(value.buffer) if root in positions}
            if isinstance(value, ir.BufferValue)
            else set()
        )
        for value in region.results
    ]


def over_rounds(found: Sequence[set[int]]) -> list[set[int]]:
    """Return what the results of a loop may alias after any number of rounds, even none.

    Args:
        found: The positions of the operands that each result of the body may alias. The first
            operands are what the loop carries.
    """
    reached = [{position, *each} if each else set() for position, each in enumerate(found)]
    for _ in found:
        for each in reached:
            for position in [p for p in each if p < len(reached)]:
                each |= reached[position]
    return reached


def names_at(operands: Sequence[Operand], positions: set[int]) -> list[str]:
    """Return the names of the buffers at these positions."""
    chosen = (operands[position] for position in sorted(positions))
    return list(dict.fromkeys(each.name for each in chosen if isinstance(each, Buffer)))


def kind_of(value: object) -> ir.SymbolKind:
    """Return the kind of symbol that can hold a number."""
    if is_relation(value) and not isinstance(value, sympy.Symbol):
        return ir.SymbolKind.BOOL
    if isinstance(value, (float, complex)):
        return ir.SymbolKind.FLOAT
    is_real = isinstance(value, sympy.Expr) and value.is_integer is not True
    return ir.SymbolKind.FLOAT if is_real else ir.SymbolKind.INT
