"""Streams, events, and the lines that put work on streams in order.

Convention: what is on which stream is a field of the line that puts it there; that one stream waits
for another is a line. Stream 0 is the one that is current where the program is called; stream *n*
is the *n*-th that the program declares, and so are events and memory pools. One that names an
object of the user's is that object, looked up anew for each call; the others are made where the
program is loaded, and nobody outside knows them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, final

from wrapper_ir.lines.base import Line, Trait
from wrapper_ir.lines.layout import CPU, Device


@dataclass(frozen=True, slots=True)
class Stream:
    """A queue of work on a device that the program uses besides the caller's.

    ``user_object`` is the number under which the front end keeps the user's stream. One that is
    ``captured`` is there while a call is captured into a CUDA graph, as a branch of that; in other
    calls it is the caller's.
    """

    device: Device
    user_object: int | None = None
    captured: bool = False


@dataclass(frozen=True, slots=True)
class Event:
    """A mark that is set in one stream and waited for in others.

    ``user_object`` is the number under which the front end keeps the user's event.
    """

    user_object: int | None = None


@dataclass(frozen=True, slots=True)
class MemoryPool:
    """Memory that allocations are taken from in place of the allocator's own.

    ``user_object`` is the number under which the front end keeps the user's pool.
    """

    device: Device
    user_object: int | None = None


@final
@dataclass(frozen=True, slots=True)
class RecordEvent(Line):
    """``record_event n @device stream m`` — sets a mark behind all that is on a stream so far.

    An event that is recorded again stands for the later place only.
    """

    mnemonic: ClassVar[str] = "record_event"
    traits: ClassVar[frozenset[Trait]] = frozenset({Trait.ORDERS})
    syntax: ClassVar[str] = "record_event {event}[ {device}][ stream {stream}]"
    nouns: ClassVar[Mapping[str, str]] = {"event": "an event"}
    event: int
    device: Device
    stream: int = 0


@final
@dataclass(frozen=True, slots=True)
class WaitEvent(Line):
    """``wait_event n @device stream m`` — what comes on the stream from here on waits for a mark.

    On the CPU the host itself waits.
    """

    mnemonic: ClassVar[str] = "wait_event"
    traits: ClassVar[frozenset[Trait]] = frozenset({Trait.ORDERS})
    syntax: ClassVar[str] = "wait_event {event}[ {device}][ stream {stream}]"
    nouns: ClassVar[Mapping[str, str]] = {"event": "an event"}
    event: int
    device: Device = CPU
    stream: int = 0


@final
@dataclass(frozen=True, slots=True)
class Synchronize(Line):
    """``synchronize @device`` — the host waits for all that is on any stream of a device."""

    mnemonic: ClassVar[str] = "synchronize"
    traits: ClassVar[frozenset[Trait]] = frozenset({Trait.ORDERS})
    syntax: ClassVar[str] = "synchronize {device}"
    device: Device
