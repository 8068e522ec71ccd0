"""Execution of the lines of a region, one method per kind of line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import torch
from typing_extensions import override

import wrapper_ir.lines as ir
from wrapper_ir.analysis.collectives import WAIT, begins_work, waits_for_work, worked_on
from wrapper_ir.devices import named
from wrapper_ir.errors import UnsupportedError, WrapperIRError
from wrapper_ir.interpreter import memory as mem
from wrapper_ir.interpreter.calls import (
    Launch,
    Watch,
    bind_results,
    find_op,
    part,
    settle,
    value_of,
)
from wrapper_ir.interpreter.frame import Buffer, Frame, device_of, dtype_of
from wrapper_ir.interpreter.queues import mix
from wrapper_ir.lines.args import buffers_in
from wrapper_ir.lines.expr import free_symbols
from wrapper_ir.lines.memory import own_memory
from wrapper_ir.lines.symbols import dims_of
from wrapper_ir.runtime import check_apart, check_result, check_that, make_probe, refuse_misaligned

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from wrapper_ir.interpreter.queues import Queues

_KEPT_DEAD = 16
"""Number of ended storages to watch for writes. Each is examined after every call."""


class Peers(Protocol):
    """Other ranks in this process, which take turns with this one."""

    def before(self, path: ir.Path, line: ir.AnyLine) -> None:
        """Let others go on before a line."""

    def talk(self, line: ir.ExternKernel) -> bool:
        """Run a line if it talks to other ranks, and return whether it does."""


class LineRunner(ir.LineVisitor[None]):
    """Runner of all lines except those that hold regions."""

    def __init__(self, program: ir.Program, kernels: Mapping[Launch, Callable[..., None]]) -> None:
        self.program = program
        self.frame: Frame = Frame(program, {})
        self.path: ir.Path = ir.Path()
        self.peers: Peers | None = None
        self.queues: Queues | None = None
        self.storages: list[mem.Storage] = []
        self._kernels = kernels

    # Walking.

    def run_body(self, region: ir.Region, parent: ir.Path, name: str) -> None:
        """Run the lines of a region in the current frame."""
        for index, line in enumerate(region.body):
            self.path = path = parent.then(name, index)
            try:
                if self.peers is not None:
                    self.peers.before(path, line)
                self._look(line)
                if self.queues is not None:
                    self.queues.before(line, self.frame, path)
                self.visit(line)
            except WrapperIRError as error:
                if error.path is None:
                    error.path, error.origin = path, self.program.place_of(line) or None
                raise

    def _look(self, line: ir.AnyLine) -> None:
        """Check that the buffers a line touches are alive and match their layouts."""
        found = ir.effects(line, self.program)
        for name in found.touched:
            if name not in found.kills or not self._is_given_up(name):
                settle(self.frame, self.frame.find(name))

    def _is_given_up(self, name: str) -> bool:
        """Return whether a region has ended a buffer that was donated to it."""
        buffer = self.frame.buffers.get(name)
        return buffer is not None and buffer.storages[0].is_given_up

    def enter(self, storage: mem.Storage) -> mem.Storage:
        """Register a storage, whose red zones are then examined after every call."""
        dead = [s for s in self.storages if s.end]
        for each in dead[:-_KEPT_DEAD]:
            self.storages.remove(each)
        storage.place = self.path
        self.storages.append(storage)
        return storage

    # Memory.

    @override
    def visit_allocate(self, line: ir.Allocate) -> None:
        storage = self._allocate(line)

        def zero() -> None:
            if line.zeroed:
                assert storage.block is not None
                storage.block.bytes.zero_()

        if self.queues is None or self.program.layout(line.out).device == ir.CPU:
            zero()
        else:
            self.queues.allocate(storage, line.stream, self.path, zero)

    @override
    def visit_allocate_pool(self, line: ir.AllocatePool) -> None:
        self._allocate(line).is_pool = True

    def _allocate(self, line: ir.Allocate | ir.AllocatePool) -> mem.Storage:
        if line.memory is ir.MemoryKind.SYMMETRIC and self.peers is None:
            raise UnsupportedError(what="memory that peers address", where="the interpreter")
        layout, allocator = self.program.layout(line.out), None
        if own := own_memory(line, layout):
            if problem := own.problem(own.python, "Python"):
                what = f"the {own.name}"
                raise UnsupportedError(what=what, where="the interpreter", hint=problem)
            allocator = named(own.python)
            if layout.is_opaque:
                return self._opaque(line.out, layout, allocator)
        at = self.frame.dim(layout.offset) * layout.dtype.itemsize
        nbytes = at + self.frame.nbytes(layout)
        block = mem.Block(nbytes, device_of(layout), allocator)
        size = block.bytes.numel()
        storage = mem.Storage(line.out, mem.Kind.OWNED, block.bytes, block.start, size, block)
        self.frame.own(self.enter(storage), self.frame.place(line.out, storage, layout))
        return storage

    def _opaque(self, name: str, layout: ir.Layout, allocator: Callable[..., Any]) -> mem.Storage:
        """Allocate memory that only the device can read, without red zones or views."""
        size, stride = self.frame.dims(layout.size), self.frame.dims(layout.stride)
        tensor = allocator(tuple(size), tuple(stride), dtype_of(layout))
        nbytes = self.frame.nbytes(layout)
        storage = mem.Storage(name, mem.Kind.OWNED, tensor, 0, nbytes, is_object=True)
        self.frame.own(self.enter(storage), tensor)
        return storage

    @override
    def visit_allocate_from_pool(self, line: ir.AllocateFromPool) -> None:
        pool = self.frame.find(line.pool).storages[0]
        layout = self.program.layout(line.out)
        offset, nbytes = self.frame.dim(line.offset), self.frame.nbytes(layout)
        if not pool.is_pool:
            raise mem.OutOfBoundsError(name=line.out, why=f"%{line.pool} is not a pool")
        if nbytes and not 0 <= offset <= offset + nbytes <= pool.nbytes:
            why = f"it is cut from bytes {offset} to {offset + nbytes} of {pool.nbytes}"
            raise mem.OutOfBoundsError(name=line.out, why=why)
        offset = pool.start + (offset if nbytes else 0)
        storage = mem.Storage(line.out, mem.Kind.OWNED, pool.tensor, offset, nbytes, pool.block)
        for other in pool.slices:
            if offset < other.start + other.nbytes and other.start < offset + nbytes:
                why = f"it overlaps %{other.owner}, which is alive"
                raise mem.OutOfBoundsError(name=line.out, why=why)
        storage.pool = pool
        pool.slices.append(storage)
        if self.queues is None or layout.device == ir.CPU:
            mem.poison(storage)
        else:
            self.queues.allocate(storage, 0, self.path, lambda: mem.poison(storage))
        self.frame.own(self.enter(storage), self.frame.place(line.out, storage, layout))

    @override
    def visit_free(self, line: ir.Free) -> None:
        if self._is_given_up(line.buffer):
            return
        buffer, why = self.frame.find(line.buffer), f"was freed at {self.path}"
        if self.queues is None:
            self.frame.end(buffer, why)
        else:
            storage = self.frame.end(buffer, why, is_used=True)
            self.queues.end(storage, line.after, self.path)

    @override
    def visit_reuse(self, line: ir.Reuse) -> None:
        donor = self.frame.find(line.donor)
        layout, begin = self.program.layout(line.out), self.frame.begin(donor)
        why = f"went to %{line.out} at {self.path}"
        storage = self.frame.end(donor, why, heir=line.out)
        if self.queues is not None:
            self.queues.inherit(storage, donor.storages[0])
        needed = self.frame.nbytes(layout)
        if needed > storage.nbytes:
            why = f"it needs {needed} bytes, but %{line.donor} has {storage.nbytes}"
            raise mem.OutOfBoundsError(name=line.out, why=why)
        if storage.is_object:  # the verifier has checked that the layouts are equal
            tensor = donor.tensor
        else:
            tensor = self.frame.place(line.out, storage, layout, begin)
        self.frame.own(self.enter(storage), tensor)

    @override
    def visit_reinterpret(self, line: ir.Reinterpret) -> None:
        source = self.frame.find(line.source)
        layout, begin = self.program.layout(line.out), self.frame.begin(source)
        tensor = self.frame.place(line.out, source.storages[0], layout, begin)
        tensor = mem.read_like(tensor, source.tensor)
        self.frame.define(Buffer(line.out, tensor, source.storages))

    # Calls.

    @override
    def visit_kernel_call(self, line: ir.KernelCall) -> None:
        kernel = self._kernels[line.kernel, line.device]
        args = [value_of(self.frame, arg) for arg in line.args]
        grid = tuple(self.frame.dim(size) for size in line.grid)
        passed = self._passed(line.args)
        self._carry_out(
            line, lambda: self._watched(line.kernel, passed, lambda: kernel(grid, *args))
        )

    def _carry_out(self, line: ir.AnyLine, run: Callable[[], Any]) -> None:
        """Do a line's work, or put it on its stream."""
        if self.queues is None:
            run()
        elif self.queues.takes(line, self.path):
            self.queues.put(line, self.frame, self.path, run)
        else:
            self.queues.now(line, self.frame, self.path)
            run()

    @override
    def visit_extern_kernel(self, line: ir.ExternKernel) -> None:
        if self.peers is not None and self.peers.talk(line):
            return
        if self.queues is not None and self._put_extern(line):
            return
        args = [value_of(self.frame, arg) for arg in line.args]
        kwargs = {name: value_of(self.frame, arg) for name, arg in line.kwargs}
        passed = [*line.args, *(arg for _, arg in line.kwargs)]
        op = find_op(self.program, line.op)

        def call() -> Any:  # noqa: ANN401 - its result
            value = op(*args, **kwargs)
            if begins_work(line):
                self._await([args, [*kwargs.values()], value])
            return value

        value = self.watched(line.op, passed, call)
        for name in ir.effects(line).held:
            for storage in self.frame.buffers[name].storages if name in self.frame.buffers else ():
                storage.is_held = True
        self.bind_results(line, value)

    def _put_extern(self, line: ir.ExternKernel) -> bool:
        """Put a call of an op on its stream, if what it returns can be made before.

        Others wait for their streams here.
        """
        assert self.queues is not None
        found, made = ir.effects(line), [r for r in line.results if isinstance(r, ir.ResultBuffer)]
        is_plain = not (found.objects or found.held) and len(made) == len(line.results)
        is_new = all(result.relation is ir.Relation.FRESH for result in made)
        layouts = [self.program.layout(result.out) for result in made]
        known = self.frame.symbols.keys()
        is_known = all(each.symbols <= known and not each.is_opaque for each in layouts)
        if not (self.queues.takes(line, self.path) and is_plain and is_new and is_known):
            self.queues.now(line, self.frame, self.path)
            return False
        if waits_for_work(line):
            self.queues.wait_for_work(line, self.frame, self.path)
            return True
        args = [value_of(self.frame, arg) for arg in line.args]
        kwargs = {name: value_of(self.frame, arg) for name, arg in line.kwargs}
        passed = self._passed([*line.args, *(arg for _, arg in line.kwargs)])
        op, frame = find_op(self.program, line.op), self.frame
        for result, layout in zip(made, layouts, strict=True):
            block = mem.Block(frame.nbytes(layout), device_of(layout))
            size = block.bytes.numel()
            storage = mem.Storage(result.out, mem.Kind.OWNED, block.bytes, block.start, size, block)
            frame.own(self.enter(storage), frame.place(result.out, storage, layout))
            self.queues.note(storage, line.stream)

        def run() -> None:
            if begins_work(line):
                names = found.reads, worked_on(line, found)
                mix(*([frame.find(name).tensor for name in each] for each in names))
                return
            value = self._watched(line.op, passed, lambda: op(*args, **kwargs))
            for result in made:
                leaf, buffer = part(line.op, value, result.path), frame.buffers[result.out]
                frame.check(result.out, leaf)
                buffer.tensor.copy_(leaf)

        self.queues.put(line, frame, self.path, run)
        return True

    def bind_results(self, line: ir.ExternKernel, value: object) -> None:
        """Give names to what a call returned."""
        alive = [storage for storage in self.storages if not storage.end]
        for storage in bind_results(self.frame, line.op, line.results, value, alive):
            self.enter(storage)

    def _await(self, values: Sequence[object]) -> None:
        """Wait for work on tensors, before their memory is compared, copied or overwritten.

        A message that is sent returns a tensor without elements. It is left to the program's own
        wait, because the receiver may send first as well.
        """
        wait = find_op(self.program, WAIT)
        for tensor in _tensors(values):
            if tensor.numel():
                wait(tensor)

    def watched(
        self, call: str, args: Sequence[ir.Arg], run: Callable[[], Any]
    ) -> Any:  # noqa: ANN401 - its result
        """Make a call and check its writes to memory."""
        return self._watched(call, self._passed(args), run)

    def _passed(self, args: Sequence[ir.Arg]) -> list[tuple[Buffer, ir.Access]]:
        return [(self.frame.find(arg.buffer), arg.access) for arg in buffers_in(args)]

    def _watched(
        self, call: str, passed: Sequence[tuple[Buffer, ir.Access]], run: Callable[[], Any]
    ) -> Any:  # noqa: ANN401 - its result
        for buffer, access in passed:
            constant = next((s for s in buffer.storages if not s.writable), None)
            if access.writes and constant is not None:
                why = f"is the constant %{constant.owner}, which is not mutable"
                raise mem.DeadBufferError(name=buffer.name, why=why)
        watch = Watch(call, passed)
        try:
            value = run()
        except WrapperIRError:
            raise
        except Exception as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise mem.CallFailedError(call=call, reason=reason) from error
        watch.check(self.storages)
        return value

    # Symbols.

    @override
    def visit_bind_symbol(self, line: ir.BindSymbol) -> None:
        source = line.source
        tensor = self.frame.find(source.buffer).tensor
        value: object = getattr(tensor, source.method)(*dims_of(source))
        if isinstance(value, bool) and self.program.symbols[line.symbol].kind is ir.SymbolKind.INT:
            value = int(value)  # Inductor converts bools to integers to select by them
        self.frame.bind(line.symbol, value)

    @override
    def visit_compute_symbol(self, line: ir.ComputeSymbol) -> None:
        self.frame.bind(line.symbol, self.frame.number(line.value))

    @override
    def visit_assert_layout(self, line: ir.AssertLayout) -> None:
        layout, tensor = self.program.layout(line.buffer), self.frame.find(line.buffer).tensor
        size, stride = tuple(self.frame.dims(layout.size)), tuple(self.frame.dims(layout.stride))
        check_result(tensor, line.subject, dtype_of(layout), size, stride, device_of(layout))
        if line.alignment and tensor.data_ptr() % line.alignment:
            refuse_misaligned(tensor, line.buffer, line.alignment)

    @override
    def visit_assert_symbol(self, line: ir.AssertSymbol) -> None:
        names = sorted(free_symbols(line.condition))
        values: dict[str, Any] = {name: self.frame.symbols[name] for name in names}
        text = line.message or str(line.condition)
        check_that(bool(self.frame.number(line.condition)), text, **values)

    @override
    def visit_assert_apart(self, line: ir.AssertApart) -> None:
        names = (*line.written, *line.others)
        check_apart(names, len(line.written), *(self.frame.find(n).tensor for n in names))

    def _nothing(self, line: ir.AnyLine) -> None:
        """Do nothing."""

    # Kernels were compiled before the program started, and calls run synchronously.
    visit_kernel_definition: Any = _nothing
    visit_comment: Any = _nothing

    @override
    def visit_record_event(self, line: ir.RecordEvent) -> None:
        if self.queues is not None:
            self.queues.record(line.event, line.stream, self.path)

    @override
    def visit_wait_event(self, line: ir.WaitEvent) -> None:
        if self.queues is not None:
            stream = None if line.device == ir.CPU else line.stream
            self.queues.wait(line.event, stream, self.path)

    @override
    def visit_synchronize(self, line: ir.Synchronize) -> None:
        if self.queues is not None:
            self.queues.synchronize(line.device)

    @override
    def visit_probe(self, line: ir.Probe) -> None:
        names = self.program.shown_names(line)
        scalars = [str(value) for value in line.scalars]
        values: list[Any] = [self.frame.find(name).tensor for name in line.buffers]
        values += map(self.frame.number, line.scalars)
        origin = self.program.source_of(line)
        make_probe(line.label, line.when.value, line.level.value, names, scalars, origin)(*values)


def _tensors(value: object) -> Iterator[torch.Tensor]:
    """Yield the tensors among arguments or results, those in lists too."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _tensors(each)
