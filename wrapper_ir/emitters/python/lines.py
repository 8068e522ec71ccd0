"""Rendering of the lines of one region as statements of one function."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from typing_extensions import override

import wrapper_ir.lines as ir
from wrapper_ir.analysis.liveness import last_uses
from wrapper_ir.emitters.python import literals
from wrapper_ir.emitters.python.calls import CallLines
from wrapper_ir.emitters.python.cuda_graphs import render_piece
from wrapper_ir.emitters.python.literals import Node, call, flat, keyword, list_of, tuple_of
from wrapper_ir.emitters.python.region import RegionBase, StreamLines, params_of
from wrapper_ir.emitters.writer import CodeWriter
from wrapper_ir.lines.control import shared_results
from wrapper_ir.lines.expr import free_symbols, quotient
from wrapper_ir.lines.memory import own_memory
from wrapper_ir.lines.symbols import dims_of

if TYPE_CHECKING:
    from collections.abc import Sequence


class MemoryLines(RegionBase):
    """Renders lines that allocate, view and free memory."""

    @override
    def visit_allocate(self, line: ir.Allocate) -> None:
        value = self.given.get(line.out) or self._allocation(line)
        with self.profiled(line, f"allocate {line.out}"):
            if value is not None and line.out in self.placed:
                self._placed(line, value)
            elif value is not None:
                self.assign(line.out, value)
        if line.zeroed:
            self.writer.line(f"{self.context.buffer(line.out)}.zero_()")

    def _placed(self, line: ir.Allocate, fresh: Node) -> None:
        """Write an allocation that is a result, for which the caller may have provided memory."""
        position, unchecked = self.placed[line.out]
        if unchecked is not None:
            self.check_out(position, unchecked)
        self.assign(line.out, f"outs[{position}]")
        name, head = self.context.buffer(line.out), f"{self.context.buffer(line.out)} = "
        self.writer.line(f"if {name} is None:")
        with self.writer.indent():
            self.put(fresh, head=head)
        result = self.context.program.results[position]
        assert isinstance(result, ir.BufferValue)
        layout, given = self.layout(line.out), self.layout(result.buffer)
        if (layout.size, layout.stride) != (given.size, given.stride):
            self.writer.line("else:")
            with self.writer.indent():
                self.put(self._view(name, layout, 0), head=head)

    @override
    def visit_allocate_pool(self, line: ir.AllocatePool) -> None:
        if line.out in self.kept_pools:
            size = self.layout(line.out).nbytes
            args = () if isinstance(size, int) else (self.context.expr(size),)
            value: Node | None = call(f"{self.kept_pools[line.out]}.take", *args)
        else:
            value = self.given.get(line.out) or self._allocation(line)
        if value is not None:
            with self.profiled(line, f"allocate {line.out}"):
                self.assign(line.out, value)

    def _allocation(self, line: ir.Allocate | ir.AllocatePool) -> Node | None:
        layout, memory = self.layout(line.out), line.memory
        size, stride = self.context.dims(layout.size), self.context.dims(layout.stride)
        dtype = literals.dtype(layout.dtype)
        if own := own_memory(line, layout):
            if problem := own.problem(own.python, "Python"):
                self.unsupported(line, problem)
                return None
            return call(self.context.imported(own.python), size, stride, dtype)
        if memory is ir.MemoryKind.SYMMETRIC:
            return self._for_peers(line, size, stride, dtype)
        allocator = layout.device.kind.python.allocator
        # `call` runs on the one accelerator of a program.
        is_current = layout.device in (ir.CPU, self.context.accelerator)
        if memory is ir.MemoryKind.DEFAULT and is_current and allocator:
            return call(self.context.imported(allocator), size, stride, dtype)
        extra = [keyword("device", self.context.device(layout.device))]
        if memory is ir.MemoryKind.PINNED:
            extra.append("pin_memory=True")
        return call("torch.empty_strided", size, stride, keyword("dtype", dtype), *extra)

    def _for_peers(
        self, line: ir.Allocate | ir.AllocatePool, size: Node, stride: Node, dtype: Node
    ) -> Node:
        """Return a call that allocates memory that peers address, or takes that of another call."""
        device = self.context.device(self.layout(line.out).device)
        if not line.kept:
            return call(self.context.helper("empty_for_peers"), size, stride, dtype, device)
        owner = self.context.names.fresh(f"peers_{self.context.buffer(line.out)}")
        self.context.define("kept", owner, call(self.context.helper("PeerMemory"), device))
        self.context.keepers.append(owner)
        return call(f"{owner}.empty_strided", size, stride, dtype)

    @override
    def visit_allocate_from_pool(self, line: ir.AllocateFromPool) -> None:
        if line.out in self.given:
            self.assign(line.out, self.given[line.out] or "")
            return
        layout, pool = self.layout(line.out), self.layout(line.pool)
        itemsize = layout.dtype.itemsize
        source = self.context.buffer(line.pool)
        if layout.dtype is not pool.dtype or line.pool in self.kept_pools:
            source = self._typed_pool(line.pool, layout)
        elements = quotient(line.offset, itemsize)
        if elements is None:
            self.unsupported(line, f"the offset is not a multiple of {itemsize} bytes")
            return
        self.assign(line.out, self._view(source, layout, elements))

    def _typed_pool(self, pool: str, layout: ir.Layout) -> str:
        """Return a pool in another dtype: an empty tensor to take slices from, made once."""
        key = (pool, layout.dtype.torch_name)
        if key not in self._pools:
            plain = self.context.buffer(pool)
            preferred = f"{plain}_{layout.dtype.torch_name}"
            name = self._pools[key] = self.context.names.fresh(preferred)
            dtype = literals.dtype(layout.dtype)
            if pool in self.kept_pools:
                made = call(f"{plain}.of", dtype)
            else:
                helper = self.context.helper("reinterpret_as")
                made = call(helper, plain, dtype, "(0,)", "(1,)", "0")
            self.put(made, head=f"{name} = ")
        return self._pools[key]

    def _view(self, source: str, layout: ir.Layout, offset: ir.Dim) -> Node:
        size, stride = self.context.dims(layout.size), self.context.dims(layout.stride)
        helper = self.context.helper("reinterpret_tensor")
        return call(helper, source, size, stride, self.context.expr(offset))

    @override
    def visit_free(self, line: ir.Free) -> None:
        if line.buffer in self.kept_pools:
            self.give_back(line.buffer)
            return
        device = self.layout(line.buffer).device
        waits = device.kind.queues is None or not device.kind.queues.frees_late
        for stream in line.after if waits else ():
            waited_for = self.context.stream(stream, device)
            self.writer.line(f"{self.context.buffer(line.buffer)}.record_stream({waited_for})")
        self.end(line.buffer)

    @override
    def visit_reuse(self, line: ir.Reuse) -> None:
        old, new = self.layout(line.donor), self.layout(line.out)
        source = self.context.buffer(line.donor)
        value: Node = source
        if old != new:
            value = self.given.get(line.out) or self._reinterpreted(line.donor, line.out)
        self.put(value, head=f"{self.context.buffer(line.out)} = ")
        self.end(line.donor)
        self.bindings.define(line.out)

    @override
    def visit_reinterpret(self, line: ir.Reinterpret) -> None:
        given = self.given.get(line.out)
        if line.out in self.given and given is None:
            self.bindings.define(line.out, [line.source])
            return
        value = given or self._reinterpreted(line.source, line.out)
        self.assign(line.out, value, [line.source])

    def _reinterpreted(self, source: str, out: str) -> Node:
        """Return a view of a buffer with the layout of another one."""
        old, new = self.layout(source), self.layout(out)
        start = ir.dim(new.offset * new.dtype.itemsize - old.offset * old.dtype.itemsize)
        if new.dtype is not old.dtype:
            args = self.context.layout_args(replace(new, device=ir.CPU))
            helper = self.context.helper("reinterpret_as")
            return call(helper, self.context.buffer(source), *args, self.context.expr(start))
        elements = quotient(start, new.dtype.itemsize)
        assert elements is not None, "both offsets are whole elements of one dtype"
        return self._view(self.context.buffer(source), new, elements)


class SymbolLines(RegionBase):
    """Renders lines that bind and compute symbols, and checks of symbols and layouts."""

    @override
    def visit_bind_symbol(self, line: ir.BindSymbol) -> None:
        buffer, source = self.context.buffer(line.source.buffer), line.source
        value = call(f"{buffer}.{source.method}", *map(str, dims_of(source)))
        self.writer.line(f"{self.context.symbol(line.symbol)} = {flat(value)}")

    @override
    def visit_compute_symbol(self, line: ir.ComputeSymbol) -> None:
        target = self.context.symbol(line.symbol)
        self.put(self.context.expr(line.value), head=f"{target} = ")

    @override
    def visit_assert_layout(self, line: ir.AssertLayout) -> None:
        if self.context.options.checks == "never":
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
                self.put(call(helper, buffer, subject, *args))
        if line.alignment:
            # Tested inline: calling a helper would cost several times as much.
            self.writer.line(f"if {buffer}.data_ptr() % {line.alignment}:")
            helper = self.context.helper("refuse_misaligned")
            refusal = call(helper, buffer, literals.string(line.buffer), str(line.alignment))
            with self.writer.indent():
                self.put(refusal)

    def _result_check(self, line: ir.AssertLayout, layout: ir.Layout) -> str:
        """Return a file-level function that checks a layout; lines with the same check share it."""
        args = [literals.string(line.subject), *self.context.layout_args(layout)]
        if line.buffer in self.context.random_states:
            args[-1] = keyword("device", "None")
        made: Node = call(self.context.helper("result_check"), *args)
        shared = self.context.options.checks == "always"
        if not shared:
            made = call(self.context.helper("once"), made)
        key = flat(made) if shared else str(self.path)
        name = self.context.shared_checks.get(key)
        if name is None:
            preferred = f"check_{self.context.buffer(line.buffer)}"
            name = self.context.shared_checks[key] = self.context.names.fresh(preferred)
            with self.context.section("checks").at(self.path):
                self.context.define("checks", name, made)
        return name

    @override
    def visit_assert_symbol(self, line: ir.AssertSymbol) -> None:
        condition = self.context.expr(line.condition)
        text = line.message or condition
        values = [
            keyword(s, s) for s in map(self.context.symbol, sorted(free_symbols(line.condition)))
        ]
        check = call(self.context.helper("check_that"), condition, literals.string(text), *values)
        self.put(check)

    @override
    def visit_assert_apart(self, line: ir.AssertApart) -> None:
        if self.context.options.checks == "never":
            return
        names = (*line.written, *line.others)
        texts = tuple_of(list(map(literals.string, names)))
        buffers = map(self.context.buffer, names)
        self.put(call(self.context.helper("check_apart"), texts, str(len(line.written)), *buffers))


class RegionRenderer(StreamLines, MemoryLines, CallLines, SymbolLines):
    """Renders the lines of a region into a writer, in order."""

    @override
    def visit_cond(self, line: ir.Cond) -> None:
        (then, orelse), symbols = self._functions(line)
        predicate = _as_operand(flat(self.arg(line, line.predicate)))
        self._chosen(line, symbols, f"{then} if {predicate} else {orelse}")

    @override
    def visit_switch(self, line: ir.Switch) -> None:
        if len(self.path) == 1 and self.index in self.context.pieces:
            self._piece(line)
            return
        functions, symbols = self._functions(line)
        number = flat(self.arg(line, line.selector))
        if isinstance(line.selector, ir.BufferArg):
            number = f"int({number})"
        place = f"[max(0, min({number}, {len(functions) - 1}))]"
        self._chosen(line, symbols, tuple_of(functions), place)

    def _piece(self, line: ir.Switch) -> None:
        """Call the function of a piece, which is captured as a CUDA graph."""
        (function,), symbols = self._functions(line)
        operands = [self.arg(line, arg) for arg in line.operands]
        value = call(function, list_of([*operands, *map(self.context.symbol, symbols)]))
        self.results(line, line.results, value, len(line.cases[0].results))

    def _chosen(
        self, line: ir.Cond | ir.Switch, symbols: Sequence[str], choice: Node, tail: str = ""
    ) -> None:
        """Call the function that an expression chooses."""
        branch = self.context.names.fresh("branch")
        self.put(choice, head=f"{branch} = ", tail=tail)
        operands = [self.arg(line, arg) for arg in line.operands]
        value = call(branch, *operands, *map(self.context.symbol, symbols))
        _, region = ir.regions_of(line)[0]
        self.results(line, line.results, value, len(region.results))

    @override
    def visit_while(self, line: ir.While) -> None:
        functions, symbols = self._functions(line)
        captured = [self.arg(line, arg) for arg in line.captured]
        captured += map(self.context.symbol, symbols)
        value = call(
            self.context.helper("run_while_stacked" if line.stacked else "run_while"),
            *functions,
            tuple_of([self.arg(line, arg) for arg in line.carried]),
            tuple_of(captured),
            *self._shared(line),
        )
        self.results(line, line.results, value, len(line.carried))

    def _shared(self, line: ir.While) -> list[Node]:
        """Return the argument with the positions of results that may be operands, if there are."""
        shared = [str(position) for position in shared_results(line)]
        return [keyword("shared", tuple_of(shared))] if shared else []

    def _functions(self, line: ir.RegionLine) -> tuple[list[str], list[str]]:
        """Render a line's regions as functions; return their names and the symbols they take last.

        The symbols are those that any of the regions needs from outside.
        """
        symbols = self.symbols_of(line)
        return [self._function(line, name, r, symbols) for name, r in ir.regions_of(line)], symbols

    def _function(
        self, line: ir.RegionLine, step: str, region: ir.Region, symbols: Sequence[str]
    ) -> str:
        """Render a region as a function of the module and return its name."""
        name = self.context.names.fresh(self.function_name(line, step))
        writer = CodeWriter()
        last = last_uses(region, self.context.program)
        inner = RegionRenderer(self.context, region, writer, last)
        inner.show_origins = self.show_origins
        params = [params_of(self.context, p) for p in region.params]
        params += map(self.context.symbol, symbols)
        is_piece = len(self.path) == 1 and self.index in self.context.pieces
        with writer.at(self.path):
            if is_piece:
                render_piece(self.context, self.index, writer)
            head = call(name, *(["args"] if is_piece else params))
            inner.put(head, head="def ", tail=":")
        with writer.indent():
            if is_piece and params:
                inner.unpack(params, "args")
                writer.line("args.clear()")
            for index in range(len(region.body)):
                inner.render(index, self.path.then(step, index))
            with writer.at(self.path):
                inner.returned()
        functions = self.context.section("functions")
        functions.blank(2)
        functions.extend(writer)
        return name

    @override
    def visit_probe(self, line: ir.Probe) -> None:
        name = self.context.names.fresh(f"show_{line.when.value}")
        self.context.define("probes", name, self._probe(line))
        values: list[Node] = [self.context.buffer(buffer) for buffer in line.buffers]
        values += [self.context.expr(value) for value in line.scalars]
        self.put(call(name, *values))

    def _probe(self, line: ir.Probe) -> Node:
        """Return the call that makes a probe's function."""
        args: list[Node] = [
            literals.string(text) for text in (line.label, line.when.value, line.level.value)
        ]
        if line.buffers or line.scalars:
            shown = self.context.program.shown_names(line)
            args.append(tuple_of([literals.string(text) for text in shown]))
        if line.scalars:
            args.append(tuple_of([literals.string(str(value)) for value in line.scalars]))
        source = self.context.program.source_of(line)
        if source and line.level is not ir.ProbeLevel.NAMES:
            args.append(keyword("source", literals.string(source)))
        return call(self.context.helper("make_probe"), *args)


def _as_operand(text: str) -> str:
    return text if text.replace("_", "").isalnum() else f"({text})"
