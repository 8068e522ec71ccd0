"""The parts of rendering a region that do not depend on the line; streams."""

from __future__ import annotations

import contextlib
from contextlib import ExitStack
from textwrap import wrap
from typing import TYPE_CHECKING, Final, NamedTuple

from typing_extensions import override

import wrapper_ir.lines as ir
from wrapper_ir.analysis.ordering import is_branched, stream_of
from wrapper_ir.emitters.python import literals
from wrapper_ir.emitters.regions import Storages, TextWalker
from wrapper_ir.lines.traits import ends, shows, takes_memory, works

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from wrapper_ir.emitters.python.context import Context
    from wrapper_ir.emitters.python.kernels import Section
    from wrapper_ir.emitters.writer import CodeWriter


class RegionBase(TextWalker["Context"]):
    """Base of the renderers of all lines: writing, and the variables that hold buffers.

    ``last`` is the last line that touches each buffer. ``definitions`` are the sections for kernels
    and ops, by the class of their source; regions inside others define none.
    """

    comment: Callable[[str], list[str]] = staticmethod(literals.comment)

    def __init__(
        self,
        context: Context,
        region: ir.Region,
        writer: CodeWriter,
        last: Mapping[str, int],
        definitions: Mapping[type, Section] | None = None,
    ) -> None:
        super().__init__(context, region, writer)
        self._definitions = definitions
        constants = frozenset(context.program.constants)
        #: Variables that hold a reference to a storage, which ends with the last of them.
        self.bindings: Storages = Storages(last, constants)
        for name in (*(p.name for p in region.params if isinstance(p, ir.BufferInput)), *constants):
            self.bindings.define(name)
        #: Whether callers may provide memory for results.
        self.takes_out = False
        #: Allocations that are results: position, and layout if it has not been checked yet.
        self.placed: dict[str, tuple[int, ir.Layout | None]] = {}
        #: The file-level variable of each arena that outlives the call, by pool.
        self.kept_pools: dict[str, str] = {}
        self._pools: dict[tuple[str, str], str] = {}
        #: Variables that hold raw streams for launches, by device and stream.
        self._handles: dict[tuple[ir.Device, int], str] = {}
        #: Buffers that exist before the line that defines them, with their values if not bound.
        self.given: dict[str, str | None] = {}

    def returned(self) -> None:
        """Write the return statement."""
        values = [self.value(v) for v in self.region.results]
        value = (
            literals.call("outputs.put", "outs", *values)
            if self.takes_out
            else literals.tuple_of(values)
        )
        self.put(value, head="return ")

    def value(self, value: ir.Value) -> str:
        """Return one result of a program or region."""
        match value:
            case ir.BufferValue():
                return self.context.buffer(value.buffer)
            case ir.NoneValue():
                return "None"
            case _:
                return self.context.expr(value.value)

    def check_out(self, position: int, layout: ir.Layout) -> None:
        """Write the check of memory provided for a result whose layout depends on symbols."""
        size, stride = self.context.dims(layout.size), self.context.dims(layout.stride)
        check = literals.call("outputs.check", "outs", str(position), size, stride)
        self.put(check)

    def put(self, value: literals.Node, *, head: str = "", tail: str = "") -> None:
        """Write a statement: a value, with text before and after it."""
        self.writer.lines(*literals.statement(value, self.writer.width, head=head, tail=tail))

    def unpack(self, targets: Sequence[str], value: literals.Node) -> None:
        """Write an assignment of the items of a value."""
        self.writer.lines(*literals.assignment(targets, value, self.writer.width, unpack=True))

    @contextlib.contextmanager
    def profiled(self, line: ir.AnyLine, name: str) -> Iterator[None]:
        """Show the profiler a range around the statements of the block, if profiling is on."""
        if not self.context.profiles:
            yield
            return
        name = literals.string(self.context.range_of(line, name))
        device = self.context.accelerator or ir.CPU
        shown = self.context.imported(device.kind.python.range or "shown_range")
        self.writer.line(f"with {shown}({name}):")
        with self.writer.indent():
            yield

    def assign(self, name: str, value: literals.Node, sources: Sequence[str] = ()) -> None:
        """Write an assignment to a buffer's variable."""
        target = self.context.buffer(name)
        self.put(value, head=f"{target} = ")
        self.bindings.define(name, sources)

    def give_back(self, pool: str) -> None:
        """Write the return of an arena that outlives the call."""
        self.bindings.end(pool, self.index)
        self._pools = {key: name for key, name in self._pools.items() if key[0] != pool}
        self.writer.line(f"{self.kept_pools[pool]}.give({self.context.buffer(pool)})")

    @override
    def end(self, *names: str) -> None:
        """Write the end of storages: delete all their variables."""
        ended: list[str] = []
        for name in names:
            members = self.bindings.end(name, self.index)
            members.sort(key=lambda member: member != name)  # the one that the line names first
            ended += [self.context.buffer(member) for member in members]
            ended += [self._pools.pop(key) for key in sorted(self._pools) if key[0] == name]
        if not ended:
            return
        room = literals.LINE_LENGTH - self.writer.width - len("del ")
        for row in wrap(", ".join(ended) + ",", room + 1, break_long_words=False):
            self.writer.line(f"del {row.removesuffix(',')}")


def params_of(context: Context, param: ir.Input) -> str:
    """Return the variable of an input or parameter."""
    match param:
        case ir.BufferInput():
            return context.buffer(param.name)
        case ir.ScalarInput():
            return context.symbol(param.symbol)
        case ir.ObjectInput():
            return context.buffer(param.object)


# Streams: ``with`` blocks around the lines of each, and events between them.
#
# Convention: a block holds consecutive lines of one stream and one memory pool; lines that run
# nothing on a stream stay where they are. Lines on the caller's stream have no block.


class _Block(NamedTuple):
    """The block that a line must be in."""

    stream: int = 0
    mempool: int = 0


_CALLERS: Final = _Block()


class StreamLines(RegionBase):
    """Renders lines that order streams, and the blocks that lines are in."""

    _block = _CALLERS
    _inside: ExitStack | None = None

    @override
    def render_line(self, line: ir.AnyLine) -> None:
        if works(line) and line.stream:
            self._ask_for_queues(line, self.context.program.streams[line.stream - 1].device)
        elif ends(line) and line.after:
            self._ask_for_queues(line, self.layout(line.buffer).device)
        super().render_line(line)

    def _ask_for_queues(self, line: ir.AnyLine, device: ir.Device) -> None:
        """Record a line that needs streams on a device whose kind has only the caller's."""
        if device != ir.CPU and device.kind.queues is None:
            self.refuse_streams(line, f"work on {device} is")

    @override
    def render(self, index: int, path: ir.Path) -> None:
        program = self.context.program
        block = self._wanted(index) if program.streams or program.mempools else None
        if block is not None and block != self._block:
            self.end_block()
            with self.writer.at(path):
                self._begin_block(block)
        super().render(index, path)

    def _wanted(self, index: int) -> _Block | None:
        """Return the block for a line; None if it can stay in the open one."""
        line = self.region.body[index]
        if takes_memory(line):
            return _Block(line.stream, line.mempool)
        if works(line):  # it allocates nothing, so any memory pool will do
            is_inside = line.stream == self._block.stream
            return self._block if is_inside else _Block(line.stream)
        if shows(line) and line.when is ir.When.BEFORE:  # in the block of the call that it precedes
            return self._wanted(index + 1) if index + 1 < len(self.region.body) else None
        is_anywhere = stream_of(line) is None and not line.runs.orders
        return None if is_anywhere else _CALLERS

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
        """Leave the open block, if there is one."""
        if self._inside is not None:
            self._inside.close()
        self._inside, self._block = None, _CALLERS

    @override
    def visit_record_event(self, line: ir.RecordEvent) -> None:
        self._ask_for_queues(line, line.device)
        event = self.context.queues["event", line.event]
        self.writer.line(f"{event}.record({self.context.stream(line.stream, line.device)})")

    @override
    def visit_wait_event(self, line: ir.WaitEvent) -> None:
        self._ask_for_queues(line, line.device)
        event = self.context.queues["event", line.event]
        if line.device == ir.CPU:
            self.writer.line(f"{event}.synchronize()")
        else:
            self.writer.line(f"{event}.wait({self.context.stream(line.stream, line.device)})")

    @override
    def visit_synchronize(self, line: ir.Synchronize) -> None:
        self._ask_for_queues(line, line.device)
        wait = self.context.queued("synchronize", line.device)
        self.writer.line(f"{wait}({self.context.device(line.device)})")


def begin_streams(context: Context, writer: CodeWriter) -> None:
    """Write the variables of the program's streams, events and memory pools in a call."""
    program = context.program
    for number, stream in enumerate(program.streams, start=1):
        _begin(context, writer, ("stream", number), stream)
    for number, pool in enumerate(program.mempools, start=1):
        _begin(context, writer, ("mempool", number), pool)
    devices = {line.event: line.device for line in program.body if isinstance(line, ir.RecordEvent)}
    for number, event in enumerate(program.events, start=1):
        name = context.queues["event", number] = context.names.fresh(f"event_{number}")
        if event.user_object is not None:
            writer.line(f"{name} = {context.helper('user_object')}({event.user_object})")
        elif number in devices:
            device = devices[number]
            plain = context.queued("event", device)
            make = context.helper("branch_event") if is_branched(program) else plain
            writer.line(f"{name} = {make}({context.device(device)})")
    for device in dict.fromkeys(_callers(program)):
        name = context.queues["stream", device] = context.names.fresh("callers_stream")
        writer.line(f"{name} = {context.queued('current', device)}({context.device(device)})")


def _begin(
    context: Context, writer: CodeWriter, key: tuple[str, int], made: ir.Stream | ir.MemoryPool
) -> None:
    """Write a stream or memory pool; the program's own ones are created once per file."""
    kind, number = key
    name = context.queues[key] = context.names.fresh(f"{kind}_{number}")
    if made.user_object is not None:
        writer.line(f"{name} = {context.helper('user_object')}({made.user_object})")
        return
    shared = context.names.fresh(f"own_{kind}_{number}")
    args = [context.device(made.device)]
    if isinstance(made, ir.Stream):
        make = context.helper("BranchStream" if made.captured else "OwnStream")
        queues = made.device.kind.queues
        if queues is not None and queues.stream:
            args.append(context.imported(queues.stream))
    else:
        make = context.helper("OwnMemoryPool")
    context.section("streams").line(f"{shared} = {make}({', '.join(args)})")
    writer.line(f"{name} = {shared}.get()")


def _callers(program: ir.Program) -> Iterator[ir.Device]:
    """Yield the devices on which some line names the caller's stream."""
    for line in program.body:
        if isinstance(line, (ir.RecordEvent, ir.WaitEvent)) and line.stream == 0:
            if line.device != ir.CPU:
                yield line.device
        elif isinstance(line, ir.Free) and 0 in line.after:
            yield program.layout(line.buffer).device
