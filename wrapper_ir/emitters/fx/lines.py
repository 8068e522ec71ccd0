"""Rendering the lines of one region as nodes of one graph."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import torch
from typing_extensions import override

from wrapper_ir.emitters.fx import checks, layouts, probes
from wrapper_ir.emitters.fx.control import ControlLines
from wrapper_ir.emitters.fx.memory import MemoryLines
from wrapper_ir.emitters.fx.region import RegionBase
from wrapper_ir.lines.expr import free_symbols
from wrapper_ir.lines.program import SymbolKind
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
    from torch import fx

    from wrapper_ir.emitters.fx.context import Context
    from wrapper_ir.lines.control import Region
    from wrapper_ir.lines.kernels import RecordEvent, Synchronize, WaitEvent
    from wrapper_ir.lines.layout import Layout
    from wrapper_ir.lines.trace import Comment, Probe


# Rendering symbols, and checks of symbols and layouts.

_aten = torch.ops.aten


class SymbolLines(RegionBase):
    """Renders lines that bind, compute and check."""

    def __init__(self, context: Context, region: Region) -> None:
        super().__init__(context, region)
        #: Inputs whose layout was checked on entry, or will be when its symbols are bound.
        self.checked: set[str] = set()

    @override
    def visit_bind_symbol(self, line: BindSymbol) -> None:
        node = self._bound(line.source, line.symbol)
        self.symbols[line.symbol] = node
        self.context.values.symbol(node, line.symbol)

    def _bound(self, source: SymbolSource, name: str) -> fx.Node:
        buffer = self.node(source.buffer)
        match source:
            case SizeOf():
                return self.call(_aten.sym_size.int, buffer, source.dim, name=name)
            case StrideOf():
                return self.call(_aten.sym_stride.int, buffer, source.dim, name=name)
            case StorageOffsetOf():
                return self.call(_aten.sym_storage_offset.default, buffer, name=name)
            case ItemOf():
                return self.call(_aten.item.default, buffer, name=name)

    @override
    def visit_compute_symbol(self, line: ComputeSymbol) -> None:
        self.symbols[line.symbol] = self.number(line.value)

    @override
    def visit_assert_layout(self, line: AssertLayout) -> None:
        if not self.context.checks:
            return
        if line.buffer in self.fresh:
            self._lay_out(line)
        elif line.buffer not in self.checked:
            node, layout = self.node(line.buffer), self.layout(line.buffer)
            spec = self._spec(line, layout)
            if layout.is_static:
                self.call(checks.CHECK_RESULT, node, spec)
            else:
                self.check_sizes(node, spec, layout, is_input=False)
        if line.alignment:
            node = self.node(line.buffer)
            self.call(checks.CHECK_ALIGNMENT, node, line.buffer, line.alignment)

    def _spec(self, line: AssertLayout, layout: Layout) -> str:
        """The layout of a result, for a check."""
        anywhere = line.buffer in self.context.random_states
        return json.dumps([checks.spec_of(line.subject, layout, anywhere=anywhere)])

    def _lay_out(self, line: AssertLayout) -> None:
        """Checks a result that nothing else is a view of; all that follows is made of the outcome.

        Once is enough: what has been laid out is not fresh any more.
        """
        self.fresh.remove(line.buffer)
        node, layout = self.node(line.buffer), self.layout(line.buffer)
        spec = self._spec(line, layout)
        if layout.is_static:
            made = self.call(layouts.LAY_OUT, node, spec, name=line.buffer)
        else:
            size, stride = self.numbers(layout.size), self.numbers(layout.stride)
            made = self.call(layouts.LAY_OUT_SIZES, node, spec, size, stride, name=line.buffer)
        self.bind(line.buffer, made, is_direct=False)

    def check_sizes(self, node: fx.Node, spec: str, layout: Layout, *, is_input: bool) -> None:
        """Checks a layout that depends on symbols."""
        size, stride = self.numbers(layout.size), self.numbers(layout.stride)
        self.call(checks.CHECK_SIZES, node, spec, size, stride, is_input)

    @override
    def visit_assert_symbol(self, line: AssertSymbol) -> None:
        symbols = self.context.program.symbols
        named = [
            name
            for name in sorted(free_symbols(line.condition))
            if symbols[name].kind is SymbolKind.INT
        ]
        condition = self.number(line.condition)
        relation = line.message or str(line.condition)
        values: list[Any] = [self.symbols[name] for name in named]
        self.call(checks.CHECK_THAT, condition, relation, named, values)


class RegionRenderer(MemoryLines, ControlLines, SymbolLines):
    """Renders the lines of a region into a graph, one after the other."""

    @override
    def visit_comment(self, line: Comment) -> None:
        self.remark(line.text)

    @override
    def visit_probe(self, line: Probe) -> None:
        buffers = [self.node(name) for name in line.buffers]
        scalars = [self.number(value) for value in line.scalars]
        self.call(probes.SHOW, buffers, probes.spec_of(line, self.context.program), scalars)

    # Streams: a line of theirs is refused before it comes here.

    @override
    def visit_record_event(self, line: RecordEvent) -> None:
        """There is nothing to do."""

    @override
    def visit_wait_event(self, line: WaitEvent) -> None:
        """There is nothing to do."""

    @override
    def visit_synchronize(self, line: Synchronize) -> None:
        """There is nothing to do."""
