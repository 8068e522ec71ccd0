"""Rendering lines that make, view and end storage."""

from __future__ import annotations

from dataclasses import replace

from typing_extensions import override

from wrapper_ir.emitters.cpp.literals import call
from wrapper_ir.emitters.cpp.region import RegionBase
from wrapper_ir.emitters.cpp.state import Place
from wrapper_ir.emitters.cpp.statics import same_view
from wrapper_ir.lines.args import BufferValue
from wrapper_ir.lines.expr import dim
from wrapper_ir.lines.layout import DType
from wrapper_ir.lines.memory import (
    Allocate,
    AllocateFromPool,
    AllocatePool,
    Free,
    MemoryKind,
    Reinterpret,
    Reuse,
)


class MemoryLines(RegionBase):
    """Renders memory lines."""

    @override
    def visit_allocate(self, line: Allocate) -> None:
        self._allocate(line)
        if line.zeroed:
            self.mark(line)
            self.put(f"wir::zero({self.handle(line.out)});")

    @override
    def visit_allocate_pool(self, line: AllocatePool) -> None:
        if line.out in self.context.statics.growing:
            self._grow(line)
        else:
            self._allocate(line)

    def _grow(self, line: AllocatePool) -> None:
        """Takes a kept pool, which gets new memory where this call needs more than those before."""
        self.mark(line)
        self.uses_state = True
        arena = self.declared.state.arena(line.out)
        heap = ", state.heap" if self.context.statics.needs_heap else ""
        value = f"{arena}.at_least({self.count(self.layout(line.out).nbytes)}{heap})"
        name = self.context.buffer(line.out)
        handle = self.declare(name, "const AtenTensorHandle", value)
        self.define(line.out, Place(handle, DType.UINT8, exact=False))

    def _allocate(self, line: Allocate | AllocatePool) -> None:
        layout = self.layout(line.out)
        if line.memory is not MemoryKind.DEFAULT:
            self.unsupported(line, f"{line.memory.value} memory is not supported in C++ yet")
        if self.declared.state.has(line.out):
            return
        self.mark(line)
        dims = self.dims(self.context.buffer(line.out), layout)
        args = (*dims, self.context.options(layout))
        if line.out in self.context.placed:
            value = call("wir::empty_result", *self._placed(line), *args)
        else:
            value = call("wir::empty", *args)
        self.define_tensor(line.out, value)

    def _placed(self, line: Allocate | AllocatePool) -> list[str]:
        """Return which result an allocation is, and how that looks if it looks otherwise."""
        position = self.context.placed[line.out]
        value = self.context.program.results[position]
        assert isinstance(value, BufferValue)
        looks_alike = self.layout(value.buffer) == self.layout(line.out)
        return ["call", str(position), *([] if looks_alike else [self.spec(value.buffer)])]

    @override
    def visit_allocate_from_pool(self, line: AllocateFromPool) -> None:
        if self.declared.state.has(line.out):
            return
        pool = self.base(line.pool)
        origin = dim(pool.origin + line.offset)
        base = replace(pool, origin=origin, owned=False, exact=False, pointer=None, input=None)
        self._view(line, line.out, base)

    @override
    def visit_free(self, line: Free) -> None:
        if not self.declared.state.has(line.buffer):
            self.end(line.buffer)

    @override
    def visit_reuse(self, line: Reuse) -> None:
        if self.declared.state.has(line.out):
            return
        old, new = self.base(line.donor), self.layout(line.out)
        same = old.exact and same_view(self.layout(line.donor), new)
        if not same and self.is_tensor(line.out):
            self.mark(line)
            self.define_tensor(line.out, self.new_view(old, line.out))
            self.end(line.donor)
            return
        # The tensor goes on as it is; kernels will find their elements in it.
        handle = old.handle
        if old.owned:
            name = self.context.buffer(line.out)
            handle = self.declare(name, "wir::Tensor", f"std::move({old.handle})")
        self.end(line.donor, moved=True)
        pointer = old.pointer if same and not old.stale else None
        self.define(line.out, replace(old, handle=handle, exact=same, pointer=pointer, stale=False))

    @override
    def visit_reinterpret(self, line: Reinterpret) -> None:
        if self.declared.state.has(line.out):
            return
        source = self.base(line.source)
        base = replace(source, owned=False, exact=False, pointer=None, stale=False, input=None)
        self._view(line, line.out, base, line.source)

    def _view(
        self, line: Reinterpret | AllocateFromPool, name: str, base: Place, *sources: str
    ) -> None:
        if self.is_tensor(name):
            self.mark(line)
            self.define_tensor(name, self.new_view(base, name), sources)
        else:
            self.define(name, base, sources)
