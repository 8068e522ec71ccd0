"""Calls that declare streams, events and memory pools, put lines on them, and order them."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from wrapper_ir.build.base import Part, located
from wrapper_ir.build.errors import ArgumentError
from wrapper_ir.build.values import device_of, here
from wrapper_ir.lines import (
    CPU,
    Device,
    Event,
    MemoryPool,
    RecordEvent,
    Stream,
    Synchronize,
    WaitEvent,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


class Streams(Part):
    """Streams and memory pools besides the caller's, told by their numbers; 0 is the caller's."""

    def stream(self, device: Device | str | None = None) -> int:
        """The number of a new stream.

        Args:
            device: The one that it is of; by default the builder's.
        """
        where = self.device if device is None else device_of(device)
        self._draft.streams.append(Stream(where))
        return len(self._draft.streams)

    def event(self) -> int:
        """The number of a new event."""
        self._draft.events.append(Event())
        return len(self._draft.events)

    def mempool(self, device: Device | str | None = None) -> int:
        """The number of a new memory pool.

        Args:
            device: The one whose memory it is; by default the builder's.
        """
        where = self.device if device is None else device_of(device)
        self._draft.mempools.append(MemoryPool(where))
        return len(self._draft.mempools)

    @contextlib.contextmanager
    def on(self, stream: int = 0, *, mempool: int = 0) -> Iterator[None]:
        """Puts what is allocated and called in the block on a stream.

        Args:
            stream: The stream's number.
            mempool: The memory pool that it allocates from.
        """
        draft = self._draft
        before = draft.stream, draft.mempool
        draft.stream, draft.mempool = stream, mempool
        try:
            yield
        finally:
            draft.stream, draft.mempool = before

    @located
    def record(self, event: int, stream: int = 0) -> None:
        """Sets a mark behind what is on a stream so far.

        Args:
            event: The event's number.
            stream: The stream's number.
        """
        self._draft.emit(
            RecordEvent(event, self._device_of(stream), stream, origin=here(self._draft))
        )

    @located
    def wait(self, event: int, stream: int = 0) -> None:
        """Has what comes on a stream wait for a mark.

        Args:
            event: The event's number.
            stream: The stream's number.
        """
        self._draft.emit(
            WaitEvent(event, self._device_of(stream), stream, origin=here(self._draft))
        )

    @located
    def synchronize(self, event: int | None = None) -> None:
        """Has the host wait: for a mark, or for all that is on the builder's device.

        Args:
            event: The event's number.
        """
        origin = here(self._draft)
        if event is None:
            self._draft.emit(Synchronize(self.device, origin=origin))
        else:
            self._draft.emit(WaitEvent(event, CPU, origin=origin))

    def _device_of(self, stream: int) -> Device:
        if stream == 0:
            return self.device
        if not 0 < stream <= len(self._draft.streams):
            raise ArgumentError(callee="the builder", reason=f"it has no stream {stream}")
        return self._draft.streams[stream - 1].device
