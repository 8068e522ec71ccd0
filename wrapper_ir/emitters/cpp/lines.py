"""Rendering of the lines of one region as statements of one function."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from typing_extensions import override

import wrapper_ir.lines as ir
from wrapper_ir.emitters.cpp import literals
from wrapper_ir.emitters.cpp.calls import CallLines
from wrapper_ir.emitters.cpp.context import ProbeRow
from wrapper_ir.emitters.cpp.control import ControlLines
from wrapper_ir.emitters.cpp.exprs import CType
from wrapper_ir.emitters.cpp.literals import call, device_index, table
from wrapper_ir.emitters.cpp.region import RegionBase
from wrapper_ir.emitters.cpp.state import Place
from wrapper_ir.lines.expr import free_symbols
from wrapper_ir.lines.memory import own_memory
from wrapper_ir.lines.symbols import dims_of
from wrapper_ir.text.expressions import TextExprPrinter
from wrapper_ir.toolchain.manifest import Part

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wrapper_ir.emitters.writer import CodeWriter


class MemoryLines(RegionBase):
    """Renders lines that allocate, view and free memory."""

    @override
    def visit_allocate(self, line: ir.Allocate) -> None:
        self._allocate(line)
        if line.zeroed:
            self.mark(line)
            self.put(f"wir::zero({self.handle(line.out)});")

    @override
    def visit_allocate_pool(self, line: ir.AllocatePool) -> None:
        if line.out in self.context.kept.growing:
            self._grow(line)
        else:
            self._allocate(line)

    def _grow(self, line: ir.AllocatePool) -> None:
        """Take a kept pool, which is allocated anew if this call needs more than those before."""
        self.mark(line)
        self.uses_state = True
        arena = self.context.state.arena(line.out)
        heap = ", state.heap" if self.context.kept.needs_heap else ""
        value = f"{arena}.at_least({self.count(self.layout(line.out).nbytes)}{heap})"
        name = self.context.buffer(line.out)
        value = self.shown(line, f"allocate {line.out}", value)
        handle = self.declare(name, "const AtenTensorHandle", value)
        self.define(line.out, Place(handle, ir.DType.UINT8, exact=False))

    def _allocate(self, line: ir.Allocate | ir.AllocatePool) -> None:
        layout = self.layout(line.out)
        own = own_memory(line, layout)
        if own and (problem := own.problem(own.cpp, "C++")):
            self.unsupported(line, problem)
        if line.memory is ir.MemoryKind.PINNED:
            self.unsupported(line, "pinned memory is not supported in C++ yet")
        if self.context.state.has(line.out):
            return
        self.mark(line)
        dims = self.dims(self.context.buffer(line.out), layout)
        args = (*dims, self.context.options(layout))
        if own:
            value = call("wir::allocated", own.cpp, *args)
        elif line.memory is ir.MemoryKind.SYMMETRIC:
            value = self._for_peers(line, *args)
        elif line.out in self.context.placed:
            value = call("wir::empty_result", *self._placed(line), *args)
        else:
            value = call("wir::empty", *args)
        self.define_tensor(line.out, self.shown(line, f"allocate {line.out}", value))

    def _for_peers(self, line: ir.Allocate | ir.AllocatePool, *args: str) -> str:
        """Return a call that allocates memory that peers address, or takes that of another call."""
        context = self.context
        context.headers.add("peers")
        context.parts.add(Part.PEERS)
        if not line.kept:
            return call("wir::empty_for_peers", *args)
        owner = context.names.fresh(f"peers_{context.buffer(line.out)}")
        context.section("shared").line(f"inline wir::PeerMemory {owner};")
        context.keepers.append(owner)
        device, side = self.layout(line.out).device, context.side
        of_device = side.stream if side is not None and device != ir.CPU else ""
        stream = call(of_device, device_index(device)) if of_device else "wir::GpuStream{}"
        return call(f"{owner}.empty_strided", stream, *args)

    def _placed(self, line: ir.Allocate | ir.AllocatePool) -> list[str]:
        """Return the position of an allocation's result, and the result's layout if it differs."""
        position = self.context.placed[line.out]
        value = self.context.program.results[position]
        assert isinstance(value, ir.BufferValue)
        looks_alike = self.layout(value.buffer) == self.layout(line.out)
        return ["call", str(position), *([] if looks_alike else [self.spec(value.buffer)])]

    @override
    def visit_allocate_from_pool(self, line: ir.AllocateFromPool) -> None:
        if self.context.state.has(line.out):
            return
        pool = self.base(line.pool)
        origin = ir.dim(pool.origin + line.offset)
        base = replace(pool, origin=origin, owned=False, exact=False, pointer=None, input=None)
        self._view(line, line.out, base)

    @override
    def visit_free(self, line: ir.Free) -> None:
        if self.context.state.has(line.buffer):
            return
        queues = self.layout(line.buffer).device.kind.queues
        if line.after and not (queues and queues.frees_late):
            self.mark(line)
            self._wait_for(line)
        self.end(line.buffer)

    def _wait_for(self, line: ir.Free) -> None:
        """Make the stream that memory returns to wait for the streams that use it.

        They wait for an event after those of the program, which is recorded anew each time.
        """
        event = self.context.spare_event
        lives = self.context.kept.storages.lives.of(line.buffer)
        for home in sorted({life.stream for life in lives}):
            for stream in line.after:
                self.put(f"call.queues->record({event}, {stream});")
                self.put(f"call.queues->wait({event}, {home});")

    @override
    def visit_reuse(self, line: ir.Reuse) -> None:
        if self.context.state.has(line.out):
            return
        old, new = self.base(line.donor), self.layout(line.out)
        same = old.exact and self.layout(line.donor) == new
        if not same and line.out in self.tensors:
            self.mark(line)
            self.define_tensor(line.out, self.new_view(old, line.out))
            self.end(line.donor)
            return
        # The tensor stays as it is; kernels take addresses from it.
        handle = old.handle
        if old.owned:
            name = self.context.buffer(line.out)
            handle = self.declare(name, "wir::Tensor", f"std::move({old.handle})")
        self.end(line.donor, moved=True)
        pointer = old.pointer if same and not old.stale else None
        self.define(line.out, replace(old, handle=handle, exact=same, pointer=pointer, stale=False))

    @override
    def visit_reinterpret(self, line: ir.Reinterpret) -> None:
        if self.context.state.has(line.out):
            return
        source = self.base(line.source)
        base = replace(source, owned=False, exact=False, pointer=None, stale=False, input=None)
        self._view(line, line.out, base, line.source)

    def _view(
        self, line: ir.Reinterpret | ir.AllocateFromPool, name: str, base: Place, *sources: str
    ) -> None:
        if name in self.tensors:
            self.mark(line)
            self.define_tensor(name, self.new_view(base, name), sources)
        else:
            self.define(name, base, sources)


class SymbolLines(RegionBase):
    """Renders lines that bind and compute symbols, and checks of symbols and layouts."""

    def define_symbol(self, symbol: str, value: str) -> None:
        """Write the variable of a symbol."""
        type_ = self.symbol_type(symbol)
        self.declare(self.context.symbol(symbol), f"const {type_.value}", value)

    @override
    def visit_bind_symbol(self, line: ir.BindSymbol) -> None:
        self.mark(line)
        self.define_symbol(line.symbol, self._bound(line.source, self.symbol_type(line.symbol)))

    def _bound(self, source: ir.SymbolSource, type_: CType) -> str:
        """Return the expression that a symbol is bound to."""
        handle = self.handle(source.buffer)
        if isinstance(source, ir.ItemOf):
            self.context.headers.add("control")
            return call(
                "wir::truth" if type_ is CType.BOOL else f"wir::{type_.member}_item", handle
            )
        word = "offset_of" if isinstance(source, ir.StorageOffsetOf) else source.method
        return call(f"wir::{word}", handle, *map(str, dims_of(source)))

    @override
    def visit_compute_symbol(self, line: ir.ComputeSymbol) -> None:
        if free_symbols(line.value):
            self.mark(line)
        self.define_symbol(line.symbol, self.expr(line.value, self.symbol_type(line.symbol)).text)

    @override
    def visit_assert_layout(self, line: ir.AssertLayout) -> None:
        is_checked = line.buffer in self.checked
        if is_checked and not line.alignment:
            return
        self.mark(line)
        handle = self.handle(line.buffer)
        kind = self.layout(line.buffer).kind
        if kind is not ir.LayoutKind.STRIDED:
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
    def visit_assert_symbol(self, line: ir.AssertSymbol) -> None:
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

    @override
    def visit_assert_apart(self, line: ir.AssertApart) -> None:
        self.context.headers.add("apart")
        self.put("if (call.check_inputs) {")
        with self.writer.indent():
            self.mark(line)
            names = (*line.written, *line.others)
            inputs = [f"{{{literals.string(n)}, {self.handle(n)}}}" for n in names]
            self.put(f"wir::check_apart({len(line.written)}, {{{', '.join(inputs)}}});")
        self.writer.line("}")


# Probes: one branch each, and a row in a table of the facts known before the run.
#
# All work is inside the branch: if the wrapper holds another view of a buffer's storage, or only an
# address, the tensor to show is made there. So a probe that is off costs only the branch, and the
# code around it is the same as without probes.


class ProbeLines(RegionBase):
    """Renders probes."""

    @override
    def visit_probe(self, line: ir.Probe) -> None:
        head = f"{line.label} {line.when.value}"
        self.put("if (call.probes != nullptr) {")
        with self.writer.indent():
            self.writer.lines(*literals.comment(head))
            if line.buffers or line.scalars:
                self.mark(line)
            values = [f"{{.tensor = {self._tensor(name)}}}" for name in line.buffers]
            operands = [(name, "kTensor") for name in self.context.program.shown_names(line)]
            for value in line.scalars:
                kind, slots = self._number(value)
                values += slots
                operands.append((str(value), kind))
            source = self.context.program.source_of(line)
            number = self.context.probe(ProbeRow(line, source, tuple(operands)))
            self.put(f"call.probes->show({number}, {{{', '.join(values)}}});")
        self.writer.line("}")

    def _tensor(self, name: str) -> str:
        """Return the handle of a tensor with exactly the buffer's layout."""
        place = self.places.get(name) or self.context.state.shown(name)
        if place.exact:
            return self.read(place).handle
        shown = self.context.names.fresh(f"{self.context.buffer(name)}_shown")
        self.put(f"const wir::Tensor {shown} = {self.new_view(place, name)};")
        return shown

    def _number(self, value: ir.Scalar) -> tuple[str, list[str]]:
        """Return the kind of a number, and the slots that hold it."""
        if isinstance(value, complex):
            parts = (value.real, value.imag)
            return "kComplex", [f"{{.real = {literals.real(part)}}}" for part in parts]
        found = self.expr(value)
        return found.type.kind, [f"{{.{found.type.member} = {found.text}}}"]


def write_probes(rows: list[ProbeRow], writer: CodeWriter) -> None:
    """Write the table of probes, and the table of the values that they show."""
    operands: list[str] = []
    probes = []
    for row in rows:
        begin = f"kProbeOperands + {len(operands)}" if row.operands else "nullptr"
        parts = (
            literals.string(row.line.label),
            literals.boolean(row.line.when is ir.When.AFTER),
            f"wir::ProbeLevel::k{row.line.level.value.title().replace('_', '')}",
            literals.string(row.source),
            str(len(row.operands)),
            begin,
        )
        probes.append(f"{{{', '.join(parts)}}}")
        operands += [
            f"{{{literals.string(name)}, wir::ProbeOperand::Kind::{kind}}}"
            for name, kind in row.operands
        ]
    for head, found in (
        ("constexpr wir::ProbeOperand kProbeOperands[]", operands),
        ("constexpr wir::ProbeInfo kProbes[]", probes),
    ):
        if found:
            writer.blank()
            writer.lines(*table(head, found))


class RegionRenderer(MemoryLines, CallLines, SymbolLines, ControlLines, ProbeLines):
    """Renders the lines of a region into a writer, in order."""

    @override
    def inner(
        self, region: ir.Region, writer: CodeWriter, last: Mapping[str, int]
    ) -> RegionRenderer:
        return RegionRenderer(self.context, region, writer, last)

    @override
    def visit_record_event(self, line: ir.RecordEvent) -> None:
        self.mark(line)
        self.put(f"call.queues->record({line.event}, {line.stream});")

    @override
    def visit_wait_event(self, line: ir.WaitEvent) -> None:
        self.mark(line)
        if line.device == ir.CPU:
            self.put(f"call.queues->wait_on_host({line.event});")
        else:
            self.put(f"call.queues->wait({line.event}, {line.stream});")

    @override
    def visit_synchronize(self, line: ir.Synchronize) -> None:
        self.mark(line)
        self.put("call.queues->synchronize();")
