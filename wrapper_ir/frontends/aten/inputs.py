"""The beginning of a program: its inputs, the symbols that their shapes bind, and checks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sympy
import torch

from wrapper_ir.frontends.aten.sources import Place, PlaceKind
from wrapper_ir.frontends.aten.state import SYMBOLIC, Ref
from wrapper_ir.lines import expr as ours
from wrapper_ir.lines.control import BufferInput, Input, ScalarInput
from wrapper_ir.lines.expr import Dim, free_symbols
from wrapper_ir.lines.program import AnyLine, SymbolKind
from wrapper_ir.lines.symbols import (
    AssertLayout,
    AssertSymbol,
    BindSymbol,
    ComputeSymbol,
    SizeOf,
    StrideOf,
    SymbolSource,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wrapper_ir.frontends.aten.state import State

__all__ = ["Beginning"]


class Beginning:
    """Converts what a graph is given.

    Attributes:
        inputs: The program's inputs: tensors and numbers, in the order of the placeholders.
        lines: What binds symbols and checks.
        values: What each input's placeholder stands for, by the node's name.
        names: What the model calls symbols of torch's that are numbers among its arguments.
    """

    def __init__(self, state: State, places: Sequence[Place]) -> None:
        self._state = state
        self.inputs: list[Input] = []
        self.lines: list[AnyLine] = []
        self.values: dict[str, Any] = {}
        self.names: dict[str, str] = {}
        #: Symbols with what tells their value, to be bound once all inputs have names.
        self._told: list[tuple[Dim, SymbolSource, int]] = []
        for place in places:
            if place.kind is not PlaceKind.CONSTANT:
                self.values[place.node.name] = self._input(place)
        self._bind()
        buffers = (item.name for item in self.inputs if isinstance(item, BufferInput))
        self.lines.extend(AssertLayout(name) for name in buffers)

    def _input(self, place: Place) -> Any:
        known = place.node.meta.get("val")
        if place.kind is PlaceKind.FIXED:
            return self._fixed(place)
        if isinstance(known, torch.Tensor):
            return self._tensor(place, known)
        return self._number(place, known)

    def _tensor(self, place: Place, known: torch.Tensor) -> Ref:
        state = self._state
        name = state.define(place.name, known)
        origin = state.origin(place.node)
        self.inputs.append(BufferInput(name))
        layout = state.buffers[name]
        self._told += [(size, SizeOf(name, n), origin) for n, size in enumerate(layout.size)]
        self._told += [(step, StrideOf(name, n), origin) for n, step in enumerate(layout.stride)]
        return Ref(name)

    def _number(self, place: Place, known: Any) -> Any:
        state = self._state
        if isinstance(known, SYMBOLIC):
            kind = SymbolKind.FLOAT if isinstance(known, torch.SymFloat) else SymbolKind.INT
            expr = state.scalar(known)
            if isinstance(expr, sympy.Symbol) and expr.name not in state.symbols:
                self.inputs.append(ScalarInput(state.bind(expr.name, kind)))
                self.names[expr.name] = place.name
                return expr
            name = state.bind_fresh(place.name, kind)
            self.inputs.append(ScalarInput(name))
            self._check(sympy.Eq(state.symbol(name), expr), f"{name} is not {expr}")
            return state.symbol(name)
        return self._fixed(place)

    def _fixed(self, place: Place) -> Any:
        """Convert an argument that always has one value: a number is checked, all else left out."""
        value = place.value
        if not isinstance(value, (bool, int, float)):
            return value
        kinds = {bool: SymbolKind.BOOL, int: SymbolKind.INT, float: SymbolKind.FLOAT}
        state = self._state
        name = state.bind_fresh(place.name, kinds[type(value)])
        self.inputs.append(ScalarInput(name))
        number = state.symbol(name)
        message = f"{name} is not {value}, for which the program was made"
        if isinstance(value, bool):
            self._check(number if value else sympy.Not(number), message)
        elif value == value:  # a NaN equals nothing
            self._check(sympy.Eq(number, value), message)
        return value

    def _check(self, condition: Any, message: str) -> None:
        self.lines.append(AssertSymbol(condition, message))

    def _bind(self) -> None:
        """Bind each symbol where it stands alone; then those that an equation gives."""
        left = []
        for value, source, origin in self._told:
            if isinstance(value, sympy.Symbol) and value.name not in self._state.symbols:
                name = self._state.bind(value.name)
                self.lines.append(BindSymbol(name, source, origin=origin))
            elif isinstance(value, sympy.Basic):
                left.append((value, source, origin))
        for value, source, origin in left:
            self.lines.extend(self._solved(value, source, origin))

    def _solved(self, value: Dim, source: SymbolSource, origin: int) -> Iterator[AnyLine]:
        """Yield what binds the one symbol that ``a*s + b`` is not known for."""
        state = self._state
        unknown = sorted(free_symbols(value) - state.symbols.keys())
        if len(unknown) != 1:
            return
        target = ours.symbol(unknown[0])
        expanded = sympy.expand(value)
        factor = expanded.coeff(target, 1)
        rest = expanded.coeff(target, 0)
        if expanded != sympy.expand(factor * target + rest) or factor.free_symbols:
            return
        raw = state.bind_fresh(f"{unknown[0]}_given")
        yield BindSymbol(raw, source, origin=origin)
        whole = state.symbol(raw) - rest
        if factor != 1:
            condition = sympy.Eq(ours.Mod(whole, factor), 0)
            yield AssertSymbol(condition, f"{value} has no solution for this size", origin=origin)
        found = whole if factor == 1 else ours.FloorDiv(whole, factor)
        yield ComputeSymbol(state.bind(unknown[0]), found, origin=origin)
        info = state.symbols[unknown[0]]
        limits = []
        if info.lower is not None:
            limits.append(sympy.Ge(target, info.lower))
        if info.upper is not None:
            limits.append(sympy.Le(target, info.upper))
        if limits:
            message = f"{unknown[0]} is outside its range"
            yield AssertSymbol(sympy.And(*limits), message, origin=origin)
