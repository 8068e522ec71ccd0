"""Rendering lines that make, view and end storage."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from typing_extensions import override

from wrapper_ir.emitters.python import literals
from wrapper_ir.emitters.python.region import RegionBase
from wrapper_ir.emitters.python.statements import (
    Node,
    call,
    keyword,
    statement,
)
from wrapper_ir.lines.args import BufferValue
from wrapper_ir.lines.expr import Dim, dim, quotient
from wrapper_ir.lines.layout import CPU, Layout
from wrapper_ir.lines.memory import (
    Allocate,
    AllocateFromPool,
    AllocatePool,
    Free,
    MemoryKind,
    Reinterpret,
    Reuse,
)

if TYPE_CHECKING:

    from wrapper_ir.lines.program import AnyLine


class MemoryLines(RegionBase):
    """Renders memory lines."""

    @override
    def visit_allocate(self, line: Allocate) -> None:
        value = self.given.get(line.out) or self._allocation(line, line.memory)
        if value is not None and line.out in self.placed:
            self._placed(line, value)
        elif value is not None:
            self.assign(line.out, value)
        if line.zeroed:
            self.writer.line(f"{self.context.buffer(line.out)}.zero_()")

    def _placed(self, line: Allocate, fresh: Node) -> None:
        """An allocation that is a result, for which the caller may have given memory."""
        position, unchecked = self.placed[line.out]
        if unchecked is not None:
            self.check_out(position, unchecked)
        self.assign(line.out, f"outs[{position}]")
        name, head = self.context.buffer(line.out), f"{self.context.buffer(line.out)} = "
        self.writer.line(f"if {name} is None:")
        with self.writer.indent():
            self.put(statement(fresh, self.writer.width, head=head))
        result = self.context.program.results[position]
        assert isinstance(result, BufferValue)
        layout, given = self.layout(line.out), self.layout(result.buffer)
        if (layout.size, layout.stride) != (given.size, given.stride):
            self.writer.line("else:")
            with self.writer.indent():
                self.put(statement(self._view(name, layout, 0), self.writer.width, head=head))

    @override
    def visit_allocate_pool(self, line: AllocatePool) -> None:
        if line.out in self.kept_pools:
            size = self.layout(line.out).nbytes
            known = isinstance(size, int)
            args = () if known else (self.context.expr(size),)
            self.assign(line.out, call(f"{self.kept_pools[line.out]}.take", *args))
            return
        value = self.given.get(line.out) or self._allocation(line, line.memory)
        if value is not None:
            self.assign(line.out, value)

    def _allocation(self, line: Allocate | AllocatePool, memory: MemoryKind) -> Node | None:
        layout = self.layout(line.out)
        size, stride = self.context.dims(layout.size), self.context.dims(layout.stride)
        dtype = literals.dtype(layout.dtype)
        if memory is MemoryKind.SYMMETRIC:
            self.unsupported(line, "memory that peers address is not supported in Python yet")
            return None
        allocator = layout.device.kind.python.allocator
        # `call` runs on the one accelerator of a program.
        is_current = layout.device in (CPU, self.context.accelerator)
        if memory is MemoryKind.DEFAULT and is_current and allocator:
            return call(self.context.helper(allocator), size, stride, dtype)
        extra = [keyword("device", self.context.device(layout.device))]
        if memory is MemoryKind.PINNED:
            extra.append("pin_memory=True")
        return call("torch.empty_strided", size, stride, keyword("dtype", dtype), *extra)

    @override
    def visit_allocate_from_pool(self, line: AllocateFromPool) -> None:
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

    def _typed_pool(self, pool: str, layout: Layout) -> str:
        """A pool's storage in another dtype: an empty tensor to take slices from, made once."""
        key = (pool, layout.dtype.torch_name)
        if key not in self._pools:
            plain = self.context.buffer(pool)
            wanted = f"{plain}_{layout.dtype.torch_name}"
            name = self._pools[key] = self.context.names.fresh(wanted)
            dtype = literals.dtype(layout.dtype)
            if pool in self.kept_pools:
                made = call(f"{plain}.of", dtype)
            else:
                helper = self.context.helper("reinterpret_as")
                made = call(helper, plain, dtype, "(0,)", "(1,)", "0")
            self.put(statement(made, self.writer.width, head=f"{name} = "))
        return self._pools[key]

    def _view(self, source: str, layout: Layout, offset: Dim) -> Node:
        size, stride = self.context.dims(layout.size), self.context.dims(layout.stride)
        helper = self.context.helper("reinterpret_tensor")
        return call(helper, source, size, stride, self.context.expr(offset))

    @override
    def visit_free(self, line: Free) -> None:
        if line.buffer in self.kept_pools:
            self.give_back(line.buffer)
            return
        for stream in line.after:
            waited_for = self.context.stream(stream, self.layout(line.buffer).device)
            self.writer.line(f"{self.context.buffer(line.buffer)}.record_stream({waited_for})")
        self.delete(line.buffer)

    @override
    def visit_reuse(self, line: Reuse) -> None:
        old, new = self.layout(line.donor), self.layout(line.out)
        source = self.context.buffer(line.donor)
        same = replace(old, offset=0) == replace(new, offset=0) and old.offset == new.offset
        value: Node | None = source
        if not same:
            value = self.given.get(line.out) or self._reinterpreted(line, line.donor, line.out)
        if value is not None:
            target = self.context.buffer(line.out)
            self.put(statement(value, self.writer.width, head=f"{target} = "))
        self.delete(line.donor)
        self.bindings.define(line.out)

    @override
    def visit_reinterpret(self, line: Reinterpret) -> None:
        given = self.given.get(line.out)
        if line.out in self.given and given is None:
            self.bindings.define(line.out, [line.source])
            return
        value = given or self._reinterpreted(line, line.source, line.out)
        if value is not None:
            self.assign(line.out, value, [line.source])

    def _reinterpreted(self, line: AnyLine, source: str, out: str) -> Node | None:
        """A view of a buffer with the layout of another one."""
        old, new = self.layout(source), self.layout(out)
        start = dim(new.offset * new.dtype.itemsize - old.offset * old.dtype.itemsize)
        if new.dtype is not old.dtype:
            args = self.context.layout_args(replace(new, device=CPU))
            helper = self.context.helper("reinterpret_as")
            return call(helper, self.context.buffer(source), *args, self.context.expr(start))
        elements = quotient(start, new.dtype.itemsize)
        if elements is None:  # pragma: no cover - both offsets are whole elements of one dtype
            self.unsupported(line, "the view begins inside an element")
            return None
        return self._view(self.context.buffer(source), new, elements)
