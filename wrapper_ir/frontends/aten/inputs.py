"""The beginning of a program: its inputs, the symbols that their shapes bind, and checks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sympy
import torch
from sympy.core.relational import Relational

from wrapper_ir.build.draft import metadata_of, range_checks
from wrapper_ir.frontends.aten.sources import Place, PlaceKind
from wrapper_ir.frontends.aten.state import Ref
from wrapper_ir.frontends.common.expressions import is_about_layout
from wrapper_ir.frontends.common.ops import SYMBOLIC
from wrapper_ir.lines import expr as ours
from wrapper_ir.lines.control import BufferInput, ScalarInput
from wrapper_ir.lines.expr import Dim, UnsupportedExprError, free_symbols
from wrapper_ir.lines.program import AnyLine, SymbolKind
from wrapper_ir.lines.symbols import (
    AssertLayout,
    AssertSymbol,
    BindSymbol,
    ComputeSymbol,
    SymbolSource,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wrapper_ir.frontends.aten.state import State


class Beginning:
    """Converts what a graph is given: inputs of the draft, lines that bind symbols, and checks.

    Attributes:
        values: What each input's placeholder stands for, by the node's name.
        names: What the model calls symbols of torch's that are numbers among its arguments.
    """

    def __init__(self, state: State, places: Sequence[Place]) -> None:
        self._state = state
        self._draft = state.draft
        self.values: dict[str, Any] = {}
        self.names: dict[str, str] = {}
        #: Symbols with what tells their value, to be bound once all inputs have names.
        self._told: list[tuple[Dim, SymbolSource, int]] = []
        for place in places:
            if place.kind is not PlaceKind.CONSTANT:
                self.values[place.node.name] = self._input(place)
        self._bind()
        buffers = (item.name for item in self._draft.inputs if isinstance(item, BufferInput))
        for name in buffers:
            self._draft.emit(AssertLayout(name))

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
        self._draft.inputs.append(BufferInput(name))
        told = metadata_of(name, state.draft.buffers[name])
        self._told += [(value, source, origin) for value, source in told]
        return Ref(name)

    def _number(self, place: Place, known: Any) -> Any:
        state = self._state
        if isinstance(known, SYMBOLIC):
            kind = SymbolKind.FLOAT if isinstance(known, torch.SymFloat) else SymbolKind.INT
            expr = state.scalar(known)
            if isinstance(expr, sympy.Symbol) and expr.name not in state.draft.bound:
                self._draft.inputs.append(ScalarInput(state.bind(expr.name, kind)))
                self.names[expr.name] = place.name
                return expr
            name = state.bind_fresh(place.name, kind)
            self._draft.inputs.append(ScalarInput(name))
            self._check(sympy.Eq(state.draft.symbol(name), expr), f"{name} is not {expr}")
            return state.draft.symbol(name)
        return self._fixed(place)

    def _fixed(self, place: Place) -> Any:
        """Convert an argument that always has one value: a number is checked, all else left out."""
        value = place.value
        if not isinstance(value, (bool, int, float)):
            return value
        kinds = {bool: SymbolKind.BOOL, int: SymbolKind.INT, float: SymbolKind.FLOAT}
        state = self._state
        name = state.bind_fresh(place.name, kinds[type(value)])
        self._draft.inputs.append(ScalarInput(name))
        number = state.draft.symbol(name)
        message = f"{name} is not {value}, for which the program was made"
        if isinstance(value, bool):
            self._check(number if value else sympy.Not(number), message)
        elif value == value:  # a NaN equals nothing
            self._check(sympy.Eq(number, value), message)
        return value

    def _check(self, condition: Any, message: str) -> None:
        self._draft.emit(AssertSymbol(condition, message))

    def _bind(self) -> None:
        """Bind each symbol where it stands alone; then those that an equation gives."""
        left = []
        for value, source, origin in self._told:
            if isinstance(value, sympy.Symbol) and value.name not in self._state.draft.bound:
                name = self._state.bind(value.name)
                self._draft.emit(BindSymbol(name, source, origin=origin))
            elif isinstance(value, sympy.Basic):
                left.append((value, source, origin))
        for value, source, origin in left:
            for line in self._solved(value, source, origin):
                self._draft.emit(line)

    def _solved(self, value: Dim, source: SymbolSource, origin: int) -> Iterator[AnyLine]:
        """Yield what binds the one symbol that ``a*s + b`` is not known for."""
        state = self._state
        unknown = sorted(free_symbols(value) - state.draft.bound)
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
        whole = state.draft.symbol(raw) - rest
        if factor != 1:
            condition = sympy.Eq(ours.Mod(whole, factor), 0)
            yield AssertSymbol(condition, f"{value} has no solution for this size", origin=origin)
        found = whole if factor == 1 else ours.FloorDiv(whole, factor)
        yield ComputeSymbol(state.bind(unknown[0]), found, origin=origin)
        info = state.draft.symbols[unknown[0]]
        yield from range_checks(target, info.lower, info.upper, unknown[0], origin)


# Guards of tracing on sizes, besides their ranges: relations become checks.
#
# A graph is made for example sizes. Where its course depended on a relation of theirs (a size is
# even, two sizes differ), torch has noted the relation as a guard. Under ``torch.compile`` a guard
# that fails means another graph; here there is one, which says that it is not for these sizes.


def guards_of(module: torch.fx.GraphModule, state: State) -> Iterator[AssertSymbol]:
    """Yield a check for each relation that the inputs' sizes must be in."""
    seen = set()
    for guard in _noted(module):
        expr = getattr(guard, "expr", None)
        if not isinstance(expr, sympy.Basic) or _is_range(expr) or is_about_layout(guard):
            continue
        try:
            condition = state.scalar(expr)
        except UnsupportedExprError:
            continue  # torch could say it, but no program: the ops check what they need
        is_known = isinstance(condition, sympy.Basic) and state.is_bound(condition)
        if is_known and condition not in seen and free_symbols(condition):
            seen.add(condition)
            yield AssertSymbol(condition, f"{condition}, as when the graph was made")


def _noted(module: torch.fx.GraphModule) -> list[Any]:
    """Return torch's guards; none where all sizes are numbers, or the graph was loaded."""
    for node in module.graph.nodes:
        value = node.meta.get("val")
        for size in value.shape if isinstance(value, torch.Tensor) else (value,):
            if isinstance(size, torch.SymInt):
                return list(getattr(size.node.shape_env, "guards", ()))
    return []


def _is_range(expr: sympy.Basic) -> bool:
    """Return whether an expression compares one symbol with a number, as ranges do."""
    return (
        isinstance(expr, Relational)
        and {type(expr.lhs).is_Symbol, type(expr.rhs).is_Symbol} == {True, False}
        and len(expr.free_symbols) == 1
        and (expr.lhs.is_number or expr.rhs.is_number)
    )
