"""Streams: Inductor's blocks become fields of their lines, its stream ops become lines of ours.

Inductor numbers streams as they occur in the graph's nodes; ours are declared by the user objects
that they are. An op with which a stream waits for another, or the host for a stream, becomes an
event of the program's own that is recorded and waited for, which is what torch does in it.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final

import torch

from wrapper_ir.analysis.liveness import storages_of
from wrapper_ir.frontends.common.ops import to_device
from wrapper_ir.frontends.inductor import compat
from wrapper_ir.frontends.inductor.devices import numbered
from wrapper_ir.frontends.inductor.errors import UnsupportedLineError
from wrapper_ir.frontends.inductor.user_objects import device_of_stream, is_current_stream
from wrapper_ir.lines import kernels
from wrapper_ir.lines.effects import effects
from wrapper_ir.lines.layout import CPU, Device
from wrapper_ir.lines.memory import Allocate
from wrapper_ir.lines.program import GraphRole
from wrapper_ir.lines.traits import has_event, works
from wrapper_ir.verify import diagnose, rules

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from wrapper_ir.build.draft import ProgramDraft
    from wrapper_ir.lines.program import AnyLine, Program


class Queues:
    """Stream and memory pool of the next lines, according to the blocks that Inductor has opened.

    Their declarations, and those of events, are in the draft.
    """

    def __init__(self, draft: ProgramDraft) -> None:
        self.draft = draft
        draft.placed = self._placed
        #: The device whose lines are being converted.
        self.device: Device = CPU
        #: Inductor's number of a stream there -> the number of the user's object.
        self.numbers: Mapping[int, int] = {}

    @property
    def is_open(self) -> bool:
        """True while lines go to a stream or a memory pool other than the caller's."""
        return bool(self.draft.stream or self.draft.mempool)

    def enter_device(self, line: Any) -> None:
        """Record the device of a block, and its streams."""
        self.device = numbered(line.device_idx)
        self.numbers = compat.user_streams(line)

    def enter_stream(self, line: Any) -> None:
        """Open a stream's block."""
        number = self.numbers.get(line.stream_idx)
        self.draft.stream = 0 if number is None else self.find_stream(number)[1]

    def exit_stream(self) -> None:
        """Close a stream's block."""
        self.draft.stream = 0

    def enter_mempool(self, line: Any) -> None:
        """Open a memory pool's block."""
        pool = kernels.MemoryPool(numbered(line.device_index), line.mempool_index)
        self.draft.mempool = self.draft.number(self.draft.mempools, pool)

    def exit_mempool(self) -> None:
        """Close a memory pool's block."""
        self.draft.mempool = 0

    def find_stream(self, number: int) -> tuple[Device, int]:
        """Return the device and our number of a user's stream; 0 is the current stream."""
        torch_device = device_of_stream(number)
        device = self.device if torch_device is None else to_device(torch_device)
        if is_current_stream(number):
            return device, 0
        return device, self.draft.number(self.draft.streams, kernels.Stream(device, number))

    def find_event(self, number: int) -> int:
        """Return our number of a user's event."""
        return self.draft.number(self.draft.events, kernels.Event(number))

    def _placed(self, line: AnyLine) -> AnyLine:
        """Return a line with the stream and the memory pool of its block."""
        if not self.is_open:
            return line
        line_effects = effects(line)
        names = (*line_effects.reads, *line_effects.written)
        if all(self.draft.buffers[name].device != self.device for name in names):
            return line
        stream, mempool = self.draft.stream, self.draft.mempool
        match line:
            case Allocate():
                return dataclasses.replace(line, stream=stream, mempool=mempool)
            case kernels.KernelCall() if line.device == self.device:
                return dataclasses.replace(line, stream=stream)
            case kernels.ExternKernel():  # a copy to the host says that it is the host's
                where: Any = {"device": self.device, "stream": stream, "mempool": mempool}
                return dataclasses.replace(line, **where)
            case _:
                return line


def host_waits(queues: Queues) -> None:
    """Make the host wait for the block's stream before it reads a value computed there."""
    if queues.draft.stream:
        _pass_on(queues, (queues.device, queues.draft.stream), (CPU, 0), None)


def joined(program: Program) -> Program:
    """Order the user's streams with the caller's at both ends of a backward pass.

    Autograd's engine does that for passes that are not compiled: each op waits for what it is
    given, and the caller for all. Torch puts the ops of a backward graph on the streams of the
    forward ones, and leaves out what orders the graph with what comes before and after.

    Memory of results is the caller's, as whoever frees it does not wait for streams, unless an op
    makes it, or its size is known too late.
    """
    first = next((at for at, line in enumerate(program.body) if _is_on_side(line)), None)
    if program.role is not GraphRole.BACKWARD or first is None:
        return program
    before, rest = program.body[:first], program.body[first:]
    returned = {each.first.owner for each in storages_of(program).lives.lives if each.leaves}
    late = {name for line in rest for name in effects(line, program).defines_symbols}
    moved: list[AnyLine] = []
    kept: list[AnyLine] = []
    for line in rest:
        if (
            isinstance(line, Allocate)
            and line.stream
            and line.out in returned
            and not late & program.buffers[line.out].symbols
        ):
            moved.append(dataclasses.replace(line, stream=0, mempool=0))
        else:
            kept.append(line)
    events = [*program.events]
    begin: list[AnyLine] = []
    end: list[AnyLine] = []
    for number, stream in enumerate(program.streams, start=1):
        callers, users = (stream.device, 0), (stream.device, number)
        begin += _passing_on(events, callers, users)
        end += _passing_on(events, users, callers)
    body = (*before, *moved, *begin, *kept, *end)
    return program.replace(body=body, events=tuple(events))


def _is_on_side(line: AnyLine) -> bool:
    return bool((works(line) or has_event(line)) and line.stream)


def refuse_races(program: Program) -> None:
    """Refuse a program in which a stream works on memory without waiting for another that does."""
    if not program.streams:
        return
    for found in diagnose(program):
        if found.rule is rules.RACE:
            where, why = str(found.path), found.message
            raise UnsupportedLineError("order of streams", where, why, hint=found.hint)


# Ops.


def is_stream_op(op: Any) -> bool:
    """Return whether an op orders streams."""
    return getattr(op, "namespace", "") == "streams" and op.name() in (*_CONVERTED, *_REFUSED)


def convert_stream_op(
    queues: Queues, op: Any, args: tuple[Any, ...], origin: int | None, *, is_region: bool
) -> None:
    """Convert a call of an op that orders streams, which is refused in a region."""
    name = str(op.name())
    why = "branches, loops and subgraphs run on one stream" if is_region else ""
    if name in _REFUSED:
        why = "it changes the current stream for everything that comes after it"
    if why:
        raise UnsupportedLineError("call of an op", name, why)
    _CONVERTED[name](queues, origin, *args)


def _wait(queues: Queues, origin: int | None, event: int, stream: int, *_: Any) -> None:
    target = queues.find_stream(stream)
    queues.draft.emit(kernels.WaitEvent(queues.find_event(event), *target, origin=origin))


def _empty_device(queues: Queues, origin: int | None, kind: str, index: int | None) -> None:
    device = queues.device if index is None else to_device(torch.device(kind, index))
    queues.draft.emit(kernels.Synchronize(device, origin=origin))


def _pass_on(
    queues: Queues, done: tuple[Device, int], waiting: tuple[Device, int], origin: int | None
) -> None:
    """Make one stream, or the host, wait for the work on another."""
    for line in _passing_on(queues.draft.events, done, waiting, origin):
        queues.draft.emit(line)


def _passing_on(
    events: list[kernels.Event],
    done: tuple[Device, int],
    waiting: tuple[Device, int],
    origin: int | None = None,
) -> tuple[AnyLine, AnyLine]:
    """Return the lines with which a stream, or the host, waits for another, by a new event."""
    events.append(kernels.Event())
    record = kernels.RecordEvent(len(events), *done, origin=origin)
    return record, kernels.WaitEvent(len(events), *waiting, origin=origin)


_CONVERTED: Final[Mapping[str, Callable[..., None]]] = {
    "streams::record_event": lambda queues, origin, event, stream: queues.draft.emit(
        kernels.RecordEvent(queues.find_event(event), *queues.find_stream(stream), origin=origin)
    ),
    "streams::wait_event": _wait,
    "streams::wait_stream": lambda queues, origin, waiting, other: _pass_on(
        queues, queues.find_stream(other), queues.find_stream(waiting), origin
    ),
    "streams::synchronize_event": lambda queues, origin, event: queues.draft.emit(
        kernels.WaitEvent(queues.find_event(event), origin=origin)
    ),
    "streams::synchronize_stream": lambda queues, origin, stream: _pass_on(
        queues, queues.find_stream(stream), (CPU, 0), origin
    ),
    "streams::synchronize_device": _empty_device,
    # Its tensor must live until then, which our planner ensures.
    "streams::sync_dealloc": _wait,
}

_REFUSED: Final = ("streams::fork", "streams::join")
