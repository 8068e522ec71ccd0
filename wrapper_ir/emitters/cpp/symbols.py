"""Rendering symbols, and checks of symbols and layouts."""

from __future__ import annotations

from typing_extensions import override

from wrapper_ir.emitters.cpp import literals
from wrapper_ir.emitters.cpp.region import RegionBase
from wrapper_ir.emitters.cpp.text import call
from wrapper_ir.emitters.cpp.types import CType
from wrapper_ir.lines.expr import free_symbols
from wrapper_ir.lines.layout import LayoutKind
from wrapper_ir.lines.symbols import (
    AssertLayout,
    AssertSymbol,
    BindSymbol,
    ComputeSymbol,
    ItemOf,
    SizeOf,
    StorageOffsetOf,
    StrideOf,
    SymbolSource,
)
from wrapper_ir.text.expr_print import TextExprPrinter


class SymbolLines(RegionBase):
    """Renders lines that bind, compute and check."""

    def define_symbol(self, symbol: str, value: str) -> None:
        """A symbol begins."""
        type_ = self.symbol_type(symbol)
        self.declare(self.context.symbol(symbol), f"const {type_.spelling}", value)

    @override
    def visit_bind_symbol(self, line: BindSymbol) -> None:
        self.mark(line)
        self.define_symbol(line.symbol, self._bound(line.source, self.symbol_type(line.symbol)))

    def _bound(self, source: SymbolSource, type_: CType) -> str:
        """The expression that a symbol is bound to."""
        handle = self.handle(source.buffer)
        match source:
            case SizeOf():
                return call("wir::size", handle, str(source.dim))
            case StrideOf():
                return call("wir::stride", handle, str(source.dim))
            case StorageOffsetOf():
                return call("wir::offset_of", handle)
            case ItemOf():
                return self._item(handle, type_)

    def _item(self, handle: str, type_: CType) -> str:
        self.context.headers.add("control")
        match type_:
            case CType.REAL:
                return call("wir::real_item", handle)
            case CType.BOOL:
                return call("wir::truth", handle)
            case _:
                return call("wir::integer_item", handle)

    @override
    def visit_compute_symbol(self, line: ComputeSymbol) -> None:
        if free_symbols(line.value):
            self.mark(line)
        self.define_symbol(line.symbol, self.expr(line.value, self.symbol_type(line.symbol)).text)

    @override
    def visit_assert_layout(self, line: AssertLayout) -> None:
        is_checked = line.buffer in self.checked
        if is_checked and not line.alignment:
            return
        self.mark(line)
        handle = self.handle(line.buffer)
        kind = self.layout(line.buffer).kind
        if kind is not LayoutKind.STRIDED:
            subject = literals.string(line.subject)
            self.put(f"wir::check_kind({handle}, {subject}, aoti_torch_layout_{kind.value}());")
        elif not is_checked:
            subject = literals.string(line.subject)
            anywhere = line.buffer in self.context.random_states
            spec = self.spec(line.buffer, anywhere=anywhere)
            self.put(f"wir::check_result({handle}, {subject}, {spec});")
        if line.alignment:
            name = literals.string(line.buffer)
            self.put(f"wir::check_alignment({handle}, {name}, {line.alignment});")

    @override
    def visit_assert_symbol(self, line: AssertSymbol) -> None:
        self.mark(line)
        condition = self.expr(line.condition, CType.BOOL).text
        words = literals.string(line.message or TextExprPrinter().print(line.condition))
        values = [
            f'"{name} is " + wir::shown({self.symbol_value(name)})'
            for name in sorted(free_symbols(line.condition))
        ]
        shown = ' + ", " + '.join(values)
        self.put(f"if (!({condition})) {{")
        with self.writer.indent():
            self.put(f"wir::refuse_relation({words}, {shown or '{}'});")
        self.writer.line("}")
