"""Inputs made up from the layouts of a program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sympy
import torch

import wrapper_ir.lines as ir
from wrapper_ir.errors import WrapperIRError
from wrapper_ir.lines.control import input_name
from wrapper_ir.lines.expr import substitute
from wrapper_ir.lines.traits import asserted

if TYPE_CHECKING:
    from torch import Tensor


class NoTypicalValueError(WrapperIRError):
    """An input cannot be made up. Field: ``what``."""

    code = "WIR1405"
    template = "no value can be made up for {what}"
    default_hint = "give the inputs (on the command line with --inputs)"


def made_up_inputs(program: ir.Program, seed: int, *, positive: bool = False) -> tuple[Any, ...]:
    """Make up inputs that fit a program's layouts.

    Floating point values are normally distributed; integers and truth values are 0 or 1. Symbolic
    sizes take their hints. A number is the one that the program asserts, or else its hint, or 1.0.
    With ``positive``, floating point values are the absolute ones: variances, for instance.

    Raises:
        NoTypicalValueError: A symbol has no hint, or an input is an object.
    """
    generator = torch.Generator().manual_seed(seed)
    hints = _hints(program)
    return tuple(
        (
            _made_up(program.layout(each.name), hints, generator, positive=positive)
            if isinstance(each, ir.BufferInput)
            else hints.get(input_name(each))
        )
        for each in program.inputs
    )


def _pinned(program: ir.Program) -> dict[str, float]:
    """Return the symbols that the program asserts to equal a number, with that number."""
    pinned = {}
    for _, line in ir.walk(program):
        condition = asserted(line)
        if isinstance(condition, sympy.Eq) and condition.rhs.is_number:
            pinned[str(condition.lhs)] = float(condition.rhs)
    return pinned


def _typical(name: str, program: ir.Program, pinned: dict[str, float]) -> float | None:
    """Return a value that the program accepts for a symbol, or None if none is known."""
    info = program.symbols.get(name)
    if info is None:
        return None
    if info.kind is ir.SymbolKind.FLOAT:
        return pinned.get(name, 1.0 if info.hint is None else float(info.hint))
    if info.kind is ir.SymbolKind.BOOL:
        return bool(pinned.get(name, 1 if info.hint is None else info.hint))
    return int(pinned[name]) if info.hint is None and name in pinned else info.hint


def _hints(program: ir.Program) -> dict[str, float]:
    symbols: set[str] = set()
    for each in program.inputs:
        if isinstance(each, ir.ObjectInput):
            raise NoTypicalValueError(what=f"{each.object}, an object of class {each.class_name}")
        symbols |= (
            {each.symbol} if isinstance(each, ir.ScalarInput) else program.layout(each.name).symbols
        )
    hints: dict[str, float] = {}
    pinned = _pinned(program)
    for name in sorted(symbols):
        info = program.symbols.get(name)
        if info is not None and info.kind is ir.SymbolKind.NONE:
            continue
        value = _typical(name, program, pinned)
        if value is None:
            raise NoTypicalValueError(what=name)
        hints[name] = value
    return hints


def _made_up(
    layout: ir.Layout, hints: dict[str, float], generator: torch.Generator, *, positive: bool
) -> Tensor:
    sizes = {name: int(value) for name, value in hints.items()}
    size = [int(substitute(extent, sizes)) for extent in layout.size]
    stride = [int(substitute(step, sizes)) for step in layout.stride]
    dtype = getattr(torch, layout.dtype.torch_name)
    tensor = torch.empty_strided(size, stride, dtype=dtype, device=str(layout.device))
    if layout.dtype.is_floating or layout.dtype.is_complex:
        values = torch.randn(size, generator=generator)
        values = values.abs() if positive else values
    else:
        values = torch.randint(0, 2, size, generator=generator)
    return tensor.copy_(values)
