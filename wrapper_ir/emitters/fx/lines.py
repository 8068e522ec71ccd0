"""Rendering of one region's lines as nodes of one graph."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import torch
from typing_extensions import override

import wrapper_ir.lines as ir
from wrapper_ir.emitters.fx import checks
from wrapper_ir.emitters.fx.control import ControlLines
from wrapper_ir.emitters.fx.region import RegionBase, Storage
from wrapper_ir.lines.expr import free_symbols
from wrapper_ir.lines.symbols import dims_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import fx

    from wrapper_ir.emitters.fx.context import Context


# Allocations, views and frees.
#
# A graph has no node for a free: FX's generated code drops each value after its last use.

_aten = torch.ops.aten


class MemoryLines(RegionBase):
    """Renders memory lines."""

    def __init__(self, context: Context, region: ir.Region) -> None:
        super().__init__(context, region)
        self._pools: dict[str, Storage] = {}

    @override
    def visit_allocate(self, line: ir.Allocate) -> None:
        layout = self.layout(line.out)
        node = self.empty(layout, line.out, line)
        self.bind(line.out, node, Storage(node, layout.dtype, is_whole=True))
        if line.zeroed:
            self.call(_aten.zero_.default, node)

    @override
    def visit_allocate_pool(self, line: ir.AllocatePool) -> None:
        layout = self.layout(line.out)
        node = self.empty(layout, line.out, line)
        self._pools[line.out] = Storage(node, layout.dtype, is_whole=True)

    @override
    def visit_allocate_from_pool(self, line: ir.AllocateFromPool) -> None:
        layout = self.layout(line.out)
        pool = self._pools.get(line.pool)
        if pool is None:
            self.unsupported(line, f"pool '{line.pool}' belongs to another region")
            return
        node = self.view(pool, layout, line.offset, line.out)
        # A slice is an owner: offsets of its views count from its own start.
        self.bind(line.out, node, replace(pool, start=ir.dim(pool.start - line.offset)))

    @override
    def visit_free(self, line: ir.Free) -> None:
        self.bound.pop(line.buffer, None)

    @override
    def visit_reuse(self, line: ir.Reuse) -> None:
        self.fresh.discard(line.donor)
        donor = self.bound.pop(line.donor)
        old, new = self.layout(line.donor), self.layout(line.out)
        storage = donor.storage
        if old == new:
            self.bind(line.out, donor.node, storage)
        else:
            self.bind(line.out, self.view(storage, new, 0, line.out), storage)

    @override
    def visit_reinterpret(self, line: ir.Reinterpret) -> None:
        self.fresh.discard(line.source)
        storage = self.bound[line.source].storage
        node = self.view(storage, self.layout(line.out), 0, line.out)
        self.bind(line.out, node, storage)


# Symbols, and checks of symbols and layouts.


#: The op that reads a symbol's value, by the method of its source.
_ASKS: Final[Mapping[str, Any]] = {
    "size": _aten.sym_size.int,
    "stride": _aten.sym_stride.int,
    "storage_offset": _aten.sym_storage_offset.default,
    "item": _aten.item.default,
}


class SymbolLines(RegionBase):
    """Renders lines that bind and compute symbols and check symbols and layouts."""

    def __init__(self, context: Context, region: ir.Region) -> None:
        super().__init__(context, region)
        #: Buffers whose layout needs no check: constants, and inputs that are checked on entry, or
        #: as soon as their symbols are bound.
        self.checked: set[str] = set(context.program.constants)

    @override
    def visit_bind_symbol(self, line: ir.BindSymbol) -> None:
        source, name = line.source, line.symbol
        asks = _ASKS[source.method]
        node = self.call(asks, self.node(source.buffer), *dims_of(source), name=name)
        self.symbols[name] = node
        self.context.values.symbol(node, name)

    @override
    def visit_compute_symbol(self, line: ir.ComputeSymbol) -> None:
        self.symbols[line.symbol] = self.number(line.value)

    @override
    def visit_assert_layout(self, line: ir.AssertLayout) -> None:
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

    def _spec(self, line: ir.AssertLayout, layout: ir.Layout) -> str:
        """Return the JSON of a result's layout, for a check."""
        anywhere = line.buffer in self.context.random_states
        return json.dumps([checks.spec_of(line.subject, layout, anywhere=anywhere)])

    def _lay_out(self, line: ir.AssertLayout) -> None:
        """Put a fresh result, which has no views yet, into its layout and bind the outcome.

        Afterwards the result is not fresh, so this happens once.
        """
        self.fresh.remove(line.buffer)
        node, layout = self.node(line.buffer), self.layout(line.buffer)
        spec = self._spec(line, layout)
        if layout.is_static:
            result = self.call(checks.LAY_OUT, node, spec, name=line.buffer)
        else:
            size, stride = self.numbers(layout.size), self.numbers(layout.stride)
            result = self.call(checks.LAY_OUT_SIZES, node, spec, size, stride, name=line.buffer)
        self.bind(line.buffer, result, is_direct=False)

    def check_sizes(self, node: fx.Node, spec: str, layout: ir.Layout, *, is_input: bool) -> None:
        """Check a layout that depends on symbols."""
        size, stride = self.numbers(layout.size), self.numbers(layout.stride)
        self.call(checks.CHECK_SIZES, node, spec, size, stride, is_input)

    @override
    def visit_assert_symbol(self, line: ir.AssertSymbol) -> None:
        symbols = self.context.program.symbols
        named = [
            name
            for name in sorted(free_symbols(line.condition))
            if symbols[name].kind is ir.SymbolKind.INT
        ]
        condition = self.number(line.condition)
        relation = line.message or str(line.condition)
        values: list[Any] = [self.symbols[name] for name in named]
        self.call(checks.CHECK_THAT, condition, relation, named, values)

    @override
    def visit_assert_apart(self, line: ir.AssertApart) -> None:
        if self.context.checks:
            names = (*line.written, *line.others)
            nodes = list(map(self.node, names))
            self.call(checks.CHECK_APART, nodes, list(names), len(line.written))


class RegionRenderer(MemoryLines, ControlLines, SymbolLines):
    """Renders the lines of a region into a graph, in order."""

    @override
    def visit_comment(self, line: ir.Comment) -> None:
        self.remark(line.text)

    @override
    def visit_probe(self, line: ir.Probe) -> None:
        buffers = [self.node(name) for name in line.buffers]
        scalars = [self.number(value) for value in line.scalars]
        self.call(checks.SHOW, buffers, checks.probe_spec(line, self.context.program), scalars)

    def _nothing(self, line: ir.AnyLine) -> None:
        """Do nothing: lines with streams have been refused before."""

    visit_record_event: Any = _nothing
    visit_wait_event: Any = _nothing
    visit_synchronize: Any = _nothing
