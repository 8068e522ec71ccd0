"""Rendering symbols, and checks of symbols and layouts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from typing_extensions import override

from wrapper_ir.emitters.python import literals
from wrapper_ir.emitters.python.region import RegionBase
from wrapper_ir.emitters.python.statements import (
    Node,
    call,
    flat,
    keyword,
    statement,
)
from wrapper_ir.lines.expr import free_symbols
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

if TYPE_CHECKING:

    from wrapper_ir.lines.layout import Layout


class SymbolLines(RegionBase):
    """Renders lines that bind, compute and check."""

    @override
    def visit_bind_symbol(self, line: BindSymbol) -> None:
        self.writer.line(f"{self.context.symbol(line.symbol)} = {self.bound(line.source)}")

    def bound(self, source: SymbolSource) -> str:
        """The expression that a symbol is bound to."""
        buffer = self.context.buffer(source.buffer)
        match source:
            case SizeOf():
                return f"{buffer}.size({source.dim})"
            case StrideOf():
                return f"{buffer}.stride({source.dim})"
            case StorageOffsetOf():
                return f"{buffer}.storage_offset()"
            case ItemOf():
                return f"{buffer}.item()"

    @override
    def visit_compute_symbol(self, line: ComputeSymbol) -> None:
        target = self.context.symbol(line.symbol)
        self.put(statement(self.context.expr(line.value), self.writer.width, head=f"{target} = "))

    @override
    def visit_assert_layout(self, line: AssertLayout) -> None:
        if self.context.checks == "never":
            return
        buffer = self.context.buffer(line.buffer)
        layout = self.layout(line.buffer)
        if line.buffer not in self.checked:
            if layout.is_static:
                self.writer.line(f"{self._result_check(line, layout)}({buffer})")
            else:
                subject = literals.string(line.subject)
                args = self.context.layout_args(layout)
                helper = self.context.helper("check_result")
                self.put(statement(call(helper, buffer, subject, *args), self.writer.width))
        if line.alignment:
            # Looked at here, since calling a helper would cost several times as much.
            self.writer.line(f"if {buffer}.data_ptr() % {line.alignment}:")
            helper = self.context.helper("refuse_misaligned")
            refusal = call(helper, buffer, literals.string(line.buffer), str(line.alignment))
            with self.writer.indent():
                self.put(statement(refusal, self.writer.width))

    def _result_check(self, line: AssertLayout, layout: Layout) -> str:
        """A function of the module that checks a layout; lines with the same check share it."""
        args = [literals.string(line.subject), *self.context.layout_args(layout)]
        if self.context.may_be_on_host(line.buffer):
            args[-1] = keyword("device", "None")
        made: Node = call(self.context.helper("result_check"), *args)
        shared = self.context.checks == "always"
        if not shared:
            made = call(self.context.helper("once"), made)
        key = flat(made) if shared else str(self.path)
        name = self.context.shared_checks.get(key)
        if name is None:
            wanted = f"check_{self.context.buffer(line.buffer)}"
            name = self.context.shared_checks[key] = self.context.names.fresh(wanted)
            with self.context.section("checks").at(self.path):
                self.context.section("checks").lines(*statement(made, 0, head=f"{name} = "))
        return name

    @override
    def visit_assert_symbol(self, line: AssertSymbol) -> None:
        condition = self.context.expr(line.condition)
        text = line.message or condition
        values = [
            keyword(s, s) for s in map(self.context.symbol, sorted(free_symbols(line.condition)))
        ]
        check = call(self.context.helper("check_that"), condition, literals.string(text), *values)
        self.put(statement(check, self.writer.width))
