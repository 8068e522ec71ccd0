"""Checks of symbols: bound once, before use, visible, and of the right kind."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import TYPE_CHECKING

import sympy

from wrapper_ir.lines import ItemOf, SizeOf, StrideOf, SymbolKind
from wrapper_ir.lines.expr import is_relation
from wrapper_ir.verify import rules

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wrapper_ir.lines import AssertSymbol, BindSymbol, DType, Layout, Scalar
    from wrapper_ir.verify.state import Place, State


class Symbols:
    """The symbols bound so far, and where they are visible."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.bound: dict[str, Place] = {}
        self._seen_unlisted: set[str] = set()
        #: Expressions whose symbols have the right kinds. Most expressions recur.
        self._sound: set[sympy.Basic] = set()

    def check_table(self) -> None:
        """Check that no range is empty, and that None has neither range nor hint."""
        for name, info in self.state.program.symbols.items():
            fault = partial(self.state.report, part=f"symbols.{name}", name=name)
            if info.kind is SymbolKind.NONE and (info.lower, info.upper, info.hint) != (None,) * 3:
                what = "it has a range or a hint, as numbers have"
                fault(rules.SYMBOL_KIND, kind=_with_article(info.kind.value), what=what)
            if info.lower is not None and info.upper is not None and info.lower > info.upper:
                fault(rules.EMPTY_RANGE, lower=info.lower, upper=info.upper)

    def bind(self, name: str, place: Place) -> None:
        """Bind a symbol."""
        self._listed(name, place)
        if name in self.bound:
            first = self.bound[name]
            self.state.report(rules.SYMBOL_TWICE, place=place, name=name, first=f"at {first}")
        else:
            self.bound[name] = place

    def is_visible(self, name: str) -> bool:
        """Return whether a symbol is bound and visible here."""
        place = self.bound.get(name)
        return place is not None and place.frame.active

    def missing(self, names: Iterable[str]) -> list[str]:
        """Return the names that are not visible, in sorted order."""
        return sorted(name for name in names if not self.is_visible(name))

    def need(self, names: Iterable[str], place: Place, where: str = "") -> None:
        """Report those of ``names`` that are not bound or not visible."""
        for name in self.missing(names):
            self._listed(name, place)
            fault = partial(self.state.report, place=place, name=name)
            if name in self.bound:
                outside = self.bound[name].frame
                region = f"the {outside.name} region of {outside.holder}"
                fault(rules.SYMBOL_OUT_OF_REGION, where=region)
            elif name in self.state.program.symbols:
                later = self.state.later(name, self.state.names.symbols)
                fault(rules.SYMBOL_UNBOUND, where=where or later)

    def _report_kind(self, name: str, kind: SymbolKind, what: str, place: Place) -> None:
        worded = _with_article(kind.value)
        self.state.report(rules.SYMBOL_KIND, place=place, name=name, kind=worded, what=what)

    def _listed(self, name: str, place: Place) -> None:
        """Report a symbol without an entry in the table, once per symbol."""
        if name not in self.state.program.symbols and name not in self._seen_unlisted:
            self._seen_unlisted.add(name)
            self.state.report(rules.SYMBOL_UNLISTED, place=place, name=name)

    def check_layout(self, name: str, layout: Layout, place: Place) -> None:
        """Check that sizes, strides and offset use integer symbols only."""
        for symbol in sorted(layout.symbols):
            self._listed(symbol, place)
            info = self.state.program.symbols.get(symbol)
            if info is not None and info.kind is not SymbolKind.INT:
                what = f"the layout of %{name} needs an int"
                self._report_kind(symbol, info.kind, what, place)
        for value in (*layout.size, *layout.stride, layout.offset):
            self.check_kinds(value, place)

    def check_kinds(self, value: Scalar, place: Place) -> None:
        """Check the kinds of the symbols in an expression against the table."""
        if not isinstance(value, sympy.Basic) or value in self._sound:
            return
        sound = True
        for name, is_integer in _symbols_of(value):
            info = self.state.program.symbols.get(name)
            if info is None:
                continue
            is_none = info.kind is SymbolKind.NONE
            if is_none or is_integer is (info.kind is SymbolKind.FLOAT):
                sound = False
                used = f"the expression {value} uses it as {'an int' if is_integer else 'a float'}"
                self._report_kind(name, info.kind, used, place)
        if sound:
            self._sound.add(value)

    def check_value(self, name: str, value: Scalar, place: Place) -> None:
        """Check that a symbol may have this value."""
        self.check_kinds(value, place)
        info = self.state.program.symbols.get(name)
        found = self.kind_of(value)
        if info is not None and found not in _ACCEPTED[info.kind]:
            self._report_kind(name, info.kind, f"{value} is {_with_article(found)}", place)

    def kind_of(self, value: Scalar) -> str:
        """Return the type of a scalar: ``int``, ``float``, ``bool``, ``complex``."""
        if isinstance(value, sympy.Symbol):
            info = self.state.program.symbols.get(value.name)
            if info is not None:
                return info.kind.value
        return _kind_of(value)

    def check_assert(self, line: AssertSymbol) -> None:
        """Check that an asserted condition is a boolean."""
        here = self.state.here()
        self.check_kinds(line.condition, here)
        kind = self.kind_of(line.condition)
        if kind != "bool":
            found = _with_article(kind)
            self.state.report(rules.NOT_A_CONDITION, value=line.condition, found=found)

    def check_bind(self, line: BindSymbol) -> None:
        """Check that the buffer has the dimension or single element that a symbol is bound to."""
        source, here = line.source, self.state.here()
        name, is_item = source.buffer, isinstance(source, ItemOf)
        layout = self.state.program.buffers.get(name)
        info = self.state.program.symbols.get(line.symbol)
        kinds: tuple[SymbolKind, ...] = (SymbolKind.INT,)
        what = "sizes, strides and offsets are ints"
        if is_item and layout is not None:
            if layout.numel != 1 and type(layout.numel) is int:
                self.state.report(rules.NOT_ONE_ELEMENT, name=name, numel=layout.numel)
            kinds, what = _kinds_of(layout.dtype), f"%{name} holds {layout.dtype.short}"
        if info is not None and info.kind not in kinds and not (is_item and layout is None):
            self._report_kind(line.symbol, info.kind, what, here)
        if isinstance(source, (SizeOf, StrideOf)) and layout is not None:
            dim, rank = source.dim, layout.rank
            if not 0 <= dim < rank:
                self.state.report(rules.NO_SUCH_DIM, name=name, rank=rank, dim=dim)


def _kinds_of(dtype: DType) -> tuple[SymbolKind, ...]:
    """Return the kinds of symbols that can hold an element of a type."""
    if dtype.is_floating:
        return (SymbolKind.FLOAT,)
    return () if dtype.is_complex else (SymbolKind.INT, SymbolKind.BOOL)


_ACCEPTED = {
    SymbolKind.INT: ("int",),
    SymbolKind.FLOAT: ("float", "int"),
    SymbolKind.BOOL: ("bool",),
    SymbolKind.NONE: (),
}


def _kind_of(value: Scalar) -> str:
    if is_relation(value):
        return "bool"
    if isinstance(value, sympy.Basic):
        return "int" if value.is_integer else "float"
    return type(value).__name__


def _with_article(kind: str) -> str:
    if kind == SymbolKind.NONE.value:
        return kind
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"


@lru_cache(maxsize=65536)
def _symbols_of(expr: sympy.Basic) -> tuple[tuple[str, bool], ...]:
    """Return the symbols of an expression, each with whether it is an integer."""
    return tuple(sorted((s.name, s.is_integer is True) for s in expr.free_symbols))
