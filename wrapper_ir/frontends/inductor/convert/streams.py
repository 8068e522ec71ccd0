"""Streams: Inductor's blocks become fields of the lines in them, its ops lines of ours.

Inductor counts streams as the graph's nodes name them; ours are declared by the objects of the
user's that they are. Ops that have one stream wait for another, or the host for a stream, become an
event of the program's own that is recorded and waited for: that is what torch does in them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import torch

from wrapper_ir.frontends.inductor.convert.values import to_device
from wrapper_ir.frontends.inductor.differences import user_streams
from wrapper_ir.frontends.inductor.errors import UnsupportedLineError
from wrapper_ir.frontends.inductor.user_objects import device_of_stream, is_current_stream
from wrapper_ir.lines.effects import effects
from wrapper_ir.lines.kernels import ExternKernel, KernelCall
from wrapper_ir.lines.layout import CPU, Device
from wrapper_ir.lines.memory import Allocate
from wrapper_ir.lines.streams import (
    Event,
    MemoryPool,
    RecordEvent,
    Stream,
    Synchronize,
    WaitEvent,
)
from wrapper_ir.verify import diagnose, rules

if TYPE_CHECKING:
    from wrapper_ir.frontends.inductor.convert.state import Scope
    from wrapper_ir.lines.program import AnyLine, Program

__all__ = [
    "Queues",
    "convert_stream_op",
    "host_waits",
    "is_stream_op",
    "placed",
    "refuse_races",
]


@dataclass(slots=True)
class Queues:
    """The program's streams, events and memory pools so far, and where the next line goes.

    Attributes:
        device: The device whose lines are being converted.
        numbers: Inductor's number of each stream there -> the number of the user's object.
        stream: The stream of the next line, ours.
        mempool: Its memory pool, ours.
    """

    streams: list[Stream] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    mempools: list[MemoryPool] = field(default_factory=list)
    device: Device = CPU
    numbers: Mapping[int, int] = field(default_factory=dict)
    stream: int = 0
    mempool: int = 0

    def enter_device(self, line: Any) -> None:
        """Note what a device's block says of its streams."""
        self.device = _gpu(line.device_idx)
        self.numbers = user_streams(line)

    def enter_stream(self, line: Any) -> None:
        """Begin a stream's block."""
        number = self.numbers.get(line.stream_idx)
        self.stream = 0 if number is None else self.find_stream(number)[1]

    def enter_mempool(self, line: Any) -> None:
        """Begin a memory pool's block."""
        pool = MemoryPool(_gpu(line.device_index), line.mempool_index)
        self.mempool = _number(self.mempools, pool)

    def find_stream(self, number: int) -> tuple[Device, int]:
        """Return the device and our number of a stream of the user's; 0 for the current one."""
        found = device_of_stream(number)
        device = self.device if found is None else to_device(found)
        if is_current_stream(number):
            return device, 0
        return device, _number(self.streams, Stream(device, number))

    def find_event(self, number: int) -> int:
        """Return our number of an event of the user's."""
        return _number(self.events, Event(number))

    def own_event(self) -> int:
        """Return the number of a new event of the program's own."""
        self.events.append(Event())
        return len(self.events)


def _gpu(index: int) -> Device:
    return Device("cuda", index)


def _number(known: list[Any], item: Any) -> int:
    """Return the number of an item, counted from 1; a new one is declared."""
    if item not in known:
        known.append(item)
    return known.index(item) + 1


def placed(line: AnyLine, scope: Scope) -> AnyLine:
    """Return a line with the stream and the memory pool of the block that it is in."""
    queues = scope.shared.queues
    if not queues.stream and not queues.mempool:
        return line
    found = effects(line)
    names = (*found.reads, *found.written)
    if all(scope.layout(name).device != queues.device for name in names):
        return line
    match line:
        case Allocate():
            return dataclasses.replace(line, stream=queues.stream, mempool=queues.mempool)
        case KernelCall() if line.device == queues.device:
            return dataclasses.replace(line, stream=queues.stream)
        case ExternKernel():  # a copy to the host says that it is the host's
            return dataclasses.replace(
                line, device=queues.device, stream=queues.stream, mempool=queues.mempool
            )
        case _:
            return line


def host_waits(scope: Scope) -> None:
    """Have the host wait for the stream of the block, before it reads what is computed there."""
    queues = scope.shared.queues
    if queues.stream:
        _pass_on(scope, (queues.device, queues.stream), (CPU, 0), None)


def refuse_races(program: Program) -> None:
    """Refuse a program whose streams get in each other's way: the model's do.

    Raises:
        UnsupportedLineError: One works on memory without waiting for another that does.
    """
    if not program.streams:
        return
    for found in diagnose(program):
        if found.rule is rules.RACE:
            raise UnsupportedLineError(
                kind="order of streams", text=str(found.path), why=found.message, hint=found.hint
            )


# Ops.


def is_stream_op(op: Any) -> bool:
    """Return whether an op puts streams in order."""
    return getattr(op, "namespace", "") == "streams" and op.name() in (*_CONVERTED, *_REFUSED)


def convert_stream_op(scope: Scope, op: Any, args: tuple[Any, ...], origin: int | None) -> None:
    """Convert a call of an op that puts streams in order.

    Raises:
        UnsupportedLineError: It changes which stream is current, or stands in a region.
    """
    name = str(op.name())
    if name in _REFUSED:
        raise UnsupportedLineError(kind="call of an op", text=name, why=_REFUSED[name])
    if scope.is_region:
        why = "branches, loops and subgraphs run on one stream"
        raise UnsupportedLineError(kind="call of an op", text=name, why=why)
    _CONVERTED[name](scope, args, origin)


def _record(scope: Scope, args: tuple[Any, ...], origin: int | None) -> None:
    event, stream = args
    queues = scope.shared.queues
    where = queues.find_stream(stream)
    scope.emit(RecordEvent(queues.find_event(event), *where, origin=origin))


def _wait(scope: Scope, args: tuple[Any, ...], origin: int | None) -> None:
    event, stream, *_ = args
    queues = scope.shared.queues
    where = queues.find_stream(stream)
    scope.emit(WaitEvent(queues.find_event(event), *where, origin=origin))


def _wait_for_stream(scope: Scope, args: tuple[Any, ...], origin: int | None) -> None:
    waiting, other = map(scope.shared.queues.find_stream, args)
    _pass_on(scope, other, waiting, origin)


def _wait_on_host(scope: Scope, args: tuple[Any, ...], origin: int | None) -> None:
    (event,) = args
    scope.emit(WaitEvent(scope.shared.queues.find_event(event), origin=origin))


def _empty_stream(scope: Scope, args: tuple[Any, ...], origin: int | None) -> None:
    (stream,) = args
    _pass_on(scope, scope.shared.queues.find_stream(stream), (CPU, 0), origin)


def _empty_device(scope: Scope, args: tuple[Any, ...], origin: int | None) -> None:
    kind, index = args
    queues = scope.shared.queues
    device = queues.device if index is None else to_device(torch.device(kind, index))
    scope.emit(Synchronize(device, origin=origin))


def _pass_on(
    scope: Scope, done: tuple[Device, int], waiting: tuple[Device, int], origin: int | None
) -> None:
    """Have one stream, or the host, wait for what is on another."""
    event = scope.shared.queues.own_event()
    scope.emit(RecordEvent(event, *done, origin=origin))
    scope.emit(WaitEvent(event, *waiting, origin=origin))


_CONVERTED: Final[Mapping[str, Callable[[Scope, tuple[Any, ...], int | None], None]]] = {
    "streams::record_event": _record,
    "streams::wait_event": _wait,
    "streams::wait_stream": _wait_for_stream,
    "streams::synchronize_event": _wait_on_host,
    "streams::synchronize_stream": _empty_stream,
    "streams::synchronize_device": _empty_device,
    # The tensor that it is given is to live until then, which our planner sees to.
    "streams::sync_dealloc": _wait,
}

_REFUSED: Final[Mapping[str, str]] = {
    "streams::fork": "it changes which stream is current for all that comes after it",
    "streams::join": "it changes which stream is current for all that comes after it",
}
