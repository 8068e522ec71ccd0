"""Calls that make, end, rename and view storage, and those that put lines on streams."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from wrapper_ir.build.errors import ArgumentError, LayoutError
from wrapper_ir.build.values import (
    Buffer,
    LayoutLike,
    Part,
    Size,
    device_of,
    dtype_of,
    here,
    located,
    new_buffer,
    own,
    size_of,
    stream_on,
)
from wrapper_ir.lines import (
    CPU,
    Allocate,
    AllocateFromPool,
    AllocatePool,
    Device,
    Dim,
    DType,
    Event,
    Free,
    Layout,
    MemoryKind,
    MemoryPool,
    OpaqueKind,
    RecordEvent,
    Reinterpret,
    Reuse,
    Stream,
    Synchronize,
    WaitEvent,
    contiguous_strides,
    dim,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


class Memory(Part):
    """Storage and views of it."""

    @located
    def allocate(  # noqa: PLR0913 - each says one thing of the storage
        self,
        dtype: DType | str | LayoutLike,
        size: Size | None = None,
        *,
        stride: Size | None = None,
        device: Device | str | None = None,
        name: str | None = None,
        memory: MemoryKind = MemoryKind.DEFAULT,
        zeroed: bool = False,
        space: str = "",
        opaque: str | None = None,
    ) -> Buffer:
        """New storage; its contents are undefined unless ``zeroed``.

        Args:
            dtype: Type of an element, or a whole layout, or a buffer that it is to be like.
            size: Sizes, in elements, where ``dtype`` is a type alone.
            stride: Strides, in elements; row-major by default.
            device: Where; by default the builder's device, or that of the buffer it is like.
            name: The buffer's name; a fresh one by default.
            memory: Which memory of the device.
            zeroed: Whether it is filled with zeros.
            space: The name of a memory space that the device's kind declares; the usual memory by
                default.
            opaque: The name of a layout that only the device understands, one of those that its
                kind declares.

        Raises:
            LayoutError: The arguments say no layout.
            NameTakenError: There is a buffer of that name.
        """
        layout = self._layout(dtype, size, stride, device)
        if opaque is not None:
            try:
                layout = replace(layout, kind=OpaqueKind(opaque))
            except ValueError as error:
                raise LayoutError(given=opaque, reason=str(error)) from None
        buffer = new_buffer(self._draft, name, layout)
        draft = self._draft
        stream = stream_on(draft, buffer.device)
        mempool = 0 if buffer.device == CPU else draft.mempool
        name, origin = buffer.name, here(draft)
        draft.emit(Allocate(name, memory, zeroed, stream, mempool, space=space, origin=origin))
        return buffer

    @located
    def free(self, buffer: Buffer, *, after: Sequence[int] = ()) -> None:
        """Ends a storage; of an input, drops the reference to it.

        Args:
            buffer: What owns the storage; all views of it end as well.
            after: Streams that may be at work on it, besides the one that it was allocated on.
        """
        name = own(self._draft, buffer, Buffer).name
        self._draft.emit(Free(name, tuple(after), origin=here(self._draft)))

    @located
    def reuse(
        self,
        donor: Buffer,
        dtype: DType | str | LayoutLike | None = None,
        size: Size | None = None,
        *,
        stride: Size | None = None,
        name: str | None = None,
    ) -> Buffer:
        """The donor's storage under another name; with the donor's layout if none is given.

        The contents stay; the donor and all views of it end.

        Args:
            donor: What owns the storage.
            dtype: Type of an element, a layout, or a buffer that it is to be like.
            size: Sizes, in elements; no more bytes than the donor has.
            stride: Strides, in elements; row-major by default.
            name: The buffer's name; a fresh one by default.
        """
        layout = own(self._draft, donor, Buffer).layout
        if dtype is not None or size is not None:
            like = donor if dtype is None else dtype
            layout = self._layout(like, size, stride, donor.device)
        buffer = new_buffer(self._draft, name, layout)
        self._draft.emit(Reuse(buffer.name, donor.name, origin=here(self._draft)))
        return buffer

    @located
    def allocate_pool(
        self,
        nbytes: Dim,
        *,
        device: Device | str | None = None,
        name: str | None = None,
        memory: MemoryKind = MemoryKind.DEFAULT,
        space: str = "",
    ) -> Buffer:
        """Storage of so many bytes, to be cut up.

        Args:
            nbytes: Its size, a number or an expression.
            device: Where; by default the builder's device.
            name: The pool's name; a fresh one by default.
            memory: Which memory of the device.
            space: The name of a memory space that the device's kind declares.
        """
        layout = self._layout(DType.UINT8, (nbytes,), None, device)
        buffer = new_buffer(self._draft, name, layout, "pool")
        self._draft.emit(AllocatePool(buffer.name, memory, space=space, origin=here(self._draft)))
        return buffer

    @located
    def allocate_from_pool(
        self,
        pool: Buffer,
        offset: Dim,
        dtype: DType | str | LayoutLike,
        size: Size | None = None,
        *,
        stride: Size | None = None,
        name: str | None = None,
    ) -> Buffer:
        """A slice of a pool as storage of its own, which has to end before the pool.

        Args:
            pool: The pool.
            offset: Where the slice begins, in bytes from the start of the pool.
            dtype: Type of an element, a layout, or a buffer that it is to be like.
            size: Sizes, in elements.
            stride: Strides, in elements; row-major by default.
            name: The buffer's name; a fresh one by default.
        """
        layout = self._layout(dtype, size, stride, own(self._draft, pool, Buffer).device)
        buffer = new_buffer(self._draft, name, layout)
        line = AllocateFromPool(buffer.name, pool.name, dim(offset), origin=here(self._draft))
        self._draft.emit(line)
        return buffer

    # Views. Their offsets count from the start of the storage, as in the program.

    @located
    def reinterpret(
        self,
        source: Buffer,
        size: Size,
        stride: Size | None = None,
        *,
        offset: Dim | None = None,
        dtype: DType | str | None = None,
        name: str | None = None,
    ) -> Buffer:
        """A view with other sizes and strides, or of another element type; copies nothing.

        Args:
            source: What it is a view of.
            size: Sizes, in elements.
            stride: Strides, in elements; row-major by default.
            offset: Where it begins, in elements of the view's dtype from the start of the
                *storage*; by default where ``source`` does.
            dtype: Type of an element; by default that of ``source``.
            name: The view's name; a fresh one by default.

        Raises:
            LayoutError: ``source`` begins inside of an element of ``dtype``.
        """
        kind = own(self._draft, source, Buffer).dtype if dtype is None else dtype_of(dtype)
        if offset is None:
            offset = _rescaled(source, kind)
        layout = self._layout(kind, size, stride, source.device, offset)
        return self._view(source, layout, name)

    @located
    def view(self, source: Buffer, size: Size, *, name: str | None = None) -> Buffer:
        """A view of a row-major buffer with other sizes.

        Args:
            source: What it is a view of.
            size: Sizes, in elements; as many elements in all.
            name: The view's name; a fresh one by default.

        Raises:
            LayoutError: The buffer is not row-major.
        """
        layout = own(self._draft, source, Buffer).layout
        if not layout.is_contiguous:
            reason = "only a row-major buffer can be seen with other sizes without a copy"
            raise LayoutError(given=source, reason=reason)
        sizes = size_of(size)
        strides = contiguous_strides(sizes)
        found = Layout(layout.dtype, layout.device, sizes, strides, layout.offset)
        return self._view(source, found, name)

    @located
    def permute(self, source: Buffer, order: Sequence[int], *, name: str | None = None) -> Buffer:
        """A view with the dimensions in another order.

        Args:
            source: What it is a view of.
            order: For each dimension of the view, that of ``source``; from 0.
            name: The view's name; a fresh one by default.

        Raises:
            LayoutError: The order does not name each dimension once.
        """
        layout = own(self._draft, source, Buffer).layout
        given: object = order
        if not isinstance(given, Sequence) or sorted(given) != list(range(layout.rank)):
            raise LayoutError(given=given, reason=f"it orders no {layout.rank} dimensions")
        sizes = tuple(layout.size[d] for d in order)
        strides = tuple(layout.stride[d] for d in order)
        found = Layout(layout.dtype, layout.device, sizes, strides, layout.offset)
        return self._view(source, found, name)

    @located
    def narrow(
        self,
        source: Buffer,
        dimension: int,
        start: Dim,
        length: Dim,
        *,
        name: str | None = None,
    ) -> Buffer:
        """A view of a part of one dimension.

        Args:
            source: What it is a view of.
            dimension: Which, from 0.
            start: The first element, from 0.
            length: How many elements.
            name: The view's name; a fresh one by default.

        Raises:
            LayoutError: There is no such dimension.
        """
        layout = own(self._draft, source, Buffer).layout
        if not 0 <= dimension < layout.rank:
            raise LayoutError(given=source, reason=f"it has no dimension {dimension}")
        sizes = tuple(length if d == dimension else s for d, s in enumerate(layout.size))
        offset = layout.offset + start * layout.stride[dimension]
        found = Layout(layout.dtype, layout.device, sizes, layout.stride, offset)
        return self._view(source, found, name)

    def _view(self, source: Buffer, layout: Layout, name: str | None) -> Buffer:
        buffer = new_buffer(self._draft, name, layout)
        self._draft.emit(Reinterpret(buffer.name, source.name, origin=here(self._draft)))
        return buffer


def _rescaled(source: Buffer, dtype: DType) -> Dim:
    """Return a buffer's storage offset in elements of another dtype."""
    offset, have, want = source.layout.offset, source.dtype.itemsize, dtype.itemsize
    if have == want or offset == 0:
        return offset
    if have % want == 0:
        return dim(offset * (have // want))
    if isinstance(offset, int) and offset * have % want == 0:
        return offset * have // want
    reason = f"it does not start at a whole {dtype.short}; say the offset"
    raise LayoutError(given=source, reason=reason)


# Calls that declare streams, events and memory pools, put lines on them, and order them.


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
