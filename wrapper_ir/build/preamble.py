"""The preamble of a program: bind the sizes of its inputs, and check them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sympy

from wrapper_ir.lines import (
    AnyLine,
    AssertLayout,
    AssertSymbol,
    BindSymbol,
    BufferInput,
    Dim,
    ScalarInput,
    SizeOf,
    StrideOf,
    SymbolSource,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wrapper_ir.build.draft import Draft


def preamble(draft: Draft, *, check_inputs: bool) -> tuple[AnyLine, ...]:
    """Lines that bind each symbol which nothing else binds, and that check inputs.

    A symbol is bound by the first size, else stride, that it alone is; the order is that of the
    inputs. Ranges are checked too: what plans memory takes them for true. An input with a symbol
    that the user binds is the user's to check.
    """
    bound: dict[str, int | None] = {}
    lines: list[AnyLine] = []
    for line in _binds(draft):
        if line.symbol not in bound and line.symbol not in draft.bound:
            bound[line.symbol] = line.origin
            lines.append(line)
    if not check_inputs:
        return tuple(lines)
    scalars = [item for item in draft.inputs if isinstance(item, ScalarInput)]
    bound.update((item.symbol, draft.input_origins.get(item)) for item in scalars)
    lines.extend(
        AssertLayout(item.name, origin=draft.input_origins.get(item))
        for item in draft.inputs
        if isinstance(item, BufferInput) and draft.layouts[item.name].symbols <= bound.keys()
    )
    for name, origin in bound.items():
        lines.extend(_range(draft, name, origin))
    return tuple(lines)


def _binds(draft: Draft) -> Iterator[BindSymbol]:
    names = [item.name for item in draft.inputs if isinstance(item, BufferInput)]
    origins = {i.name: o for i, o in draft.input_origins.items() if isinstance(i, BufferInput)}
    for name in names:
        for position, size in enumerate(draft.layouts[name].size):
            yield from _bind(size, SizeOf(name, position), origins.get(name))
    for name in names:
        for position, stride in enumerate(draft.layouts[name].stride):
            yield from _bind(stride, StrideOf(name, position), origins.get(name))


def _bind(value: Dim, source: SymbolSource, origin: int | None) -> Iterator[BindSymbol]:
    if isinstance(value, sympy.Symbol):
        yield BindSymbol(value.name, source, origin=origin)


def _range(draft: Draft, name: str, origin: int | None) -> Iterator[AssertSymbol]:
    info = draft.symbols[name]
    is_size = ScalarInput(name) not in draft.input_origins
    symbol = draft.symbol(name)
    parts = []
    if info.lower is not None and not (is_size and info.lower <= 0):
        parts.append(sympy.Ge(symbol, info.lower))
    if info.upper is not None:
        parts.append(sympy.Le(symbol, info.upper))
    if parts:
        message = f"{name} is outside its range"
        yield AssertSymbol(sympy.And(*parts), message, origin=origin)
