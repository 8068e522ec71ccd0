"""Symbols that the inputs of a program determine, and the lines that bind them.

A size or stride that is a bare symbol gives the symbol. An expression, such as ``2*s0 + s1``, gives
its only symbol that nothing else gives, if it is linear in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import sympy

import wrapper_ir.lines as ir
from wrapper_ir.lines.expr import FloorDiv, Mod, free_symbols, substitute
from wrapper_ir.lines.symbols import dims_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from wrapper_ir.build.draft import ProgramDraft


class Equation(NamedTuple):
    """A dim in terms of symbols, and what gives its value.

    Attributes:
        value: The dim.
        given: The metadata that holds its value, or the name of a symbol that is bound already.
        origin: The origin of the lines that bind symbols from it.
    """

    value: ir.Dim
    given: ir.SymbolSource | str
    origin: int | None = None


def bind_given(
    draft: ProgramDraft, equations: Iterable[Equation], bind: Callable[[str], object]
) -> Iterator[ir.AnyLine]:
    """Yield the lines that bind all symbols that equations determine: bare ones, then the others.

    Args:
        draft: The program; what it has bound already stays as it is.
        equations: The equations. If several give a symbol, the first one does, or the first one
            without a division by something that may be 0.
        bind: Records in the draft that a line binds the symbol of this name.
    """
    left = []
    for each in equations:
        value, given, origin = each
        if not isinstance(value, sympy.Symbol):
            left.append(each)
        elif value.name not in draft.bound and not isinstance(given, str):
            bind(value.name)
            yield ir.BindSymbol(value.name, given, origin=origin)
    while solvable := [(each, form) for each in left if (form := _linear(draft, each.value))]:
        equation, form = min(solvable, key=lambda each: bool(each[1].factor.free_symbols))
        bind(form.unknown)
        yield from _solved(draft, equation, form)


class _Linear(NamedTuple):
    """A dim ``factor*unknown + rest``, where ``unknown`` is its only symbol that is not bound."""

    unknown: str
    factor: sympy.Expr
    rest: sympy.Expr


def _linear(draft: ProgramDraft, value: ir.Dim) -> _Linear | None:
    """Return the form of a dim, or None if it has another one."""
    unknown = free_symbols(value) - draft.bound
    if len(unknown) != 1:
        return None
    target, expanded = ir.symbol(*unknown), sympy.expand(value)
    form = _Linear(target.name, expanded.coeff(target, 1), expanded.coeff(target, 0))
    is_linear = sympy.expand(form.factor * target + form.rest) == expanded
    return form if is_linear and target not in form.factor.free_symbols else None


def _solved(draft: ProgramDraft, equation: Equation, form: _Linear) -> Iterator[ir.AnyLine]:
    """Yield the lines that solve an equation for its symbol, which the draft has bound.

    They check that the division leaves no remainder: there are sizes that no symbol gives.
    """
    unknown, factor, rest = form
    value, given, origin = equation
    if isinstance(given, str):
        name = words = given
    else:
        hints = {n: info.hint for n, info in draft.symbols.items() if info.hint is not None}
        hint = substitute(value, hints)
        name = draft.fresh(f"{unknown}_given")
        draft.bind(name, ir.SymbolInfo(hint=hint if type(hint) is int else None))
        yield ir.BindSymbol(name, given, origin=origin)
        place = "".join(f" {dim}" for dim in dims_of(given))
        words = f"{given.method}{place} of '{given.buffer}'"
    whole = draft.symbol(name) - rest
    if factor == 1:
        yield ir.ComputeSymbol(unknown, whole, origin=origin)
        return
    if factor.free_symbols:
        message = f"{factor} not to be 0, so that {words} gives {unknown}"
        yield ir.AssertSymbol(sympy.Ne(factor, 0), message, origin=origin)
    message = f"{words} to be {value} for some {unknown}"
    yield ir.AssertSymbol(sympy.Eq(Mod(whole, factor), 0), message, origin=origin)
    yield ir.ComputeSymbol(unknown, FloorDiv(whole, factor), origin=origin)
