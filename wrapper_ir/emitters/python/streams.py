"""Rendering streams: ``with`` blocks around what is on one, events between them.

Convention: a block holds consecutive lines of one stream and one memory pool; lines that put
nothing on a stream stay where they are. What is on the caller's stream has no block.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Final, NamedTuple

from typing_extensions import override

from wrapper_ir.emitters.python.region import RegionBase
from wrapper_ir.lines.control import Cond, While
from wrapper_ir.lines.kernels import (
    ExternKernel,
    KernelCall,
    RecordEvent,
    Stream,
    Synchronize,
    WaitEvent,
)
from wrapper_ir.lines.layout import CPU
from wrapper_ir.lines.memory import Allocate, AllocatePool, Free
from wrapper_ir.lines.symbols import BindSymbol, ItemOf
from wrapper_ir.lines.trace import Probe, When

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wrapper_ir.emitters.python.context import Context
    from wrapper_ir.emitters.writer import CodeWriter
    from wrapper_ir.lines.kernels import MemoryPool
    from wrapper_ir.lines.layout import Device
    from wrapper_ir.lines.program import Program
    from wrapper_ir.lines.walk import Path


class _Block(NamedTuple):
    """The block that a line has to be inside of."""

    stream: int = 0
    mempool: int = 0


_CALLERS: Final = _Block()


class StreamLines(RegionBase):
    """Renders what orders streams, and the blocks that lines are in."""

    _block = _CALLERS
    _inside: ExitStack | None = None

    @override
    def render(self, index: int, path: Path) -> None:
        program = self.context.program
        block = self._wanted(index) if program.streams or program.mempools else None
        if block is not None and block != self._block:
            self.end_block()
            with self.writer.at(path):
                self._begin_block(block)
        super().render(index, path)

    def _wanted(self, index: int) -> _Block | None:
        """The block for a line; none where it stays in the one that is open."""
        line = self.region.body[index]
        match line:
            case Allocate() | ExternKernel():
                return _Block(line.stream, line.mempool)
            case KernelCall():  # which allocates nothing
                is_inside = line.stream == self._block.stream
                return self._block if is_inside else _Block(line.stream)
            case Probe(when=When.BEFORE):  # with the call that it looks forward to
                return self._wanted(index + 1) if index + 1 < len(self.region.body) else None
            case RecordEvent() | WaitEvent() | Synchronize() | AllocatePool() | Cond() | While():
                return _CALLERS
            case BindSymbol(source=ItemOf()):
                return _CALLERS
            case _:
                return None

    def _begin_block(self, block: _Block) -> None:
        inside = []
        if block.mempool:
            device = self.context.program.mempools[block.mempool - 1].device
            pool = self.context.queues["mempool", block.mempool]
            args = f"{pool}, {self.context.device(device)}"
            inside.append(f"torch.{device.type}.use_mem_pool({args})")
        if block.stream:
            inside.append(self.context.queues["stream", block.stream])
        if inside:
            self.writer.line(f"with {', '.join(inside)}:")
            self._inside = ExitStack()
            self._inside.enter_context(self.writer.indent())
        self._block = block

    def end_block(self) -> None:
        """Leaves the block that is open, if one is."""
        if self._inside is not None:
            self._inside.close()
        self._inside, self._block = None, _CALLERS

    @override
    def visit_record_event(self, line: RecordEvent) -> None:
        event = self.context.queues["event", line.event]
        self.writer.line(f"{event}.record({self.context.stream(line.stream, line.device)})")

    @override
    def visit_wait_event(self, line: WaitEvent) -> None:
        event = self.context.queues["event", line.event]
        if line.device == CPU:
            self.writer.line(f"{event}.synchronize()")
        else:
            self.writer.line(f"{event}.wait({self.context.stream(line.stream, line.device)})")

    @override
    def visit_synchronize(self, line: Synchronize) -> None:
        self.writer.line(
            f"torch.{line.device.type}.synchronize({self.context.device(line.device)})"
        )


def begin_streams(context: Context, writer: CodeWriter) -> None:
    """Writes what the program's streams, events and memory pools are in a call."""
    program = context.program
    for number, stream in enumerate(program.streams, start=1):
        _begin(context, writer, ("stream", number), stream)
    for number, pool in enumerate(program.mempools, start=1):
        _begin(context, writer, ("mempool", number), pool)
    devices = {line.event: line.device for line in program.body if isinstance(line, RecordEvent)}
    for number, event in enumerate(program.events, start=1):
        name = context.queues["event", number] = context.names.fresh(f"event_{number}")
        if event.user_object is not None:
            writer.line(f"{name} = {context.helper('user_object')}({event.user_object})")
        elif number in devices:
            is_branched = all(stream.captured for stream in program.streams)
            make = context.helper("branch_event") if is_branched else "torch.Event"
            writer.line(f"{name} = {make}({context.device(devices[number])})")
    for device in dict.fromkeys(_callers(program)):
        name = context.queues["stream", device] = context.names.fresh("callers_stream")
        writer.line(f"{name} = torch.{device.type}.current_stream({context.device(device)})")


def _begin(
    context: Context, writer: CodeWriter, key: tuple[str, int], made: Stream | MemoryPool
) -> None:
    """A stream or memory pool; the program's own are made once for the file."""
    kind, number = key
    name = context.queues[key] = context.names.fresh(f"{kind}_{number}")
    if made.user_object is not None:
        writer.line(f"{name} = {context.helper('user_object')}({made.user_object})")
        return
    shared = context.names.fresh(f"own_{kind}_{number}")
    if isinstance(made, Stream):
        make = context.helper("BranchStream" if made.captured else "OwnStream")
    else:
        make = context.helper("OwnMemoryPool")
    context.section("streams").line(f"{shared} = {make}({context.device(made.device)})")
    writer.line(f"{name} = {shared}.get()")


def _callers(program: Program) -> Iterator[Device]:
    """The devices whose stream of the caller some line names."""
    for line in program.body:
        if isinstance(line, (RecordEvent, WaitEvent)) and line.stream == 0:
            if line.device != CPU:
                yield line.device
        elif isinstance(line, Free) and 0 in line.after:
            yield program.layout(line.buffer).device
