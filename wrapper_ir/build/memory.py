"""Calls that allocate, free, reuse and view storage, and that use streams, events and pools."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import replace

import wrapper_ir.lines as ir
from wrapper_ir.build.values import (
    ArgumentError,
    Buffer,
    LayoutError,
    LayoutLike,
    Part,
    Size,
    dtype_of,
    located,
    size_of,
)


class Memory(Part):
    """Storage and its views."""

    @located
    def allocate(  # noqa: PLR0913 - each says one thing of the storage
        self,
        dtype: ir.DType | str | LayoutLike,
        size: Size | None = None,
        *,
        stride: Size | None = None,
        device: ir.Device | str | None = None,
        name: str | None = None,
        memory: ir.MemoryKind = ir.MemoryKind.DEFAULT,
        zeroed: bool = False,
        space: str = "",
        opaque: str | None = None,
    ) -> Buffer:
        """Allocate storage. Its contents are undefined unless ``zeroed``.

        Args:
            dtype: Element type, a whole layout, or a buffer to imitate.
            size: Sizes, in elements, if ``dtype`` is an element type.
            stride: Strides, in elements. Row-major by default.
            device: The device. By default that of the imitated buffer, or the builder's.
            name: The buffer's name. By default a fresh one.
            memory: The kind of memory.
            zeroed: Fill the storage with zeros.
            space: A memory space that the device's kind declares. By default the usual memory.
            opaque: An opaque layout that the device's kind declares.

        Raises:
            LayoutError: The arguments do not describe a layout.
            NameTakenError: A buffer already has the name.
        """
        layout = self._layout(dtype, size, stride, device)
        if opaque is not None:
            try:
                layout = replace(layout, kind=ir.OpaqueKind(opaque))
            except ValueError as error:
                raise LayoutError(given=opaque, reason=str(error)) from None
        buffer, draft = self._new_buffer(name, layout), self._draft
        stream = self._stream_on(buffer.device)
        mempool = 0 if buffer.device == ir.CPU else draft.mempool
        self._emit(ir.Allocate(buffer.name, memory, zeroed, stream, mempool, space=space))
        return buffer

    @located
    def free(self, buffer: Buffer, *, after: Sequence[int] = ()) -> None:
        """End a storage, with all views of it, by its owner. A reference to an input is dropped.

        ``after`` are streams that may still use the storage, besides the one it was allocated on.
        """
        self._emit(ir.Free(self._buffer(buffer).name, tuple(after)))

    @located
    def reuse(
        self,
        donor: Buffer,
        dtype: ir.DType | str | LayoutLike | None = None,
        size: Size | None = None,
        *,
        stride: Size | None = None,
        name: str | None = None,
    ) -> Buffer:
        """Give the donor's storage a new name and, optionally, a new layout.

        The contents stay. The donor and all views of it end.

        Args:
            donor: The owner of the storage.
            dtype: Element type, a layout, or a buffer to imitate. By default the donor's.
            size: Sizes, in elements. The buffer may need no more bytes than the donor has.
            stride: Strides, in elements. Row-major by default.
            name: The buffer's name. By default a fresh one.
        """
        layout = self._buffer(donor).layout
        if dtype is not None or size is not None:
            like = donor if dtype is None else dtype
            layout = self._layout(like, size, stride, donor.device)
        buffer = self._new_buffer(name, layout)
        self._emit(ir.Reuse(buffer.name, donor.name))
        return buffer

    @located
    def allocate_pool(
        self,
        nbytes: ir.Dim,
        *,
        device: ir.Device | str | None = None,
        name: str | None = None,
        memory: ir.MemoryKind = ir.MemoryKind.DEFAULT,
        space: str = "",
    ) -> Buffer:
        """Allocate a pool of some bytes to cut slices from, by default on the builder's device.

        ``space`` is a memory space that the device's kind declares.
        """
        layout = self._layout(ir.DType.UINT8, (nbytes,), None, device)
        buffer = self._new_buffer(name, layout, "pool")
        self._emit(ir.AllocatePool(buffer.name, memory, space=space))
        return buffer

    @located
    def allocate_from_pool(
        self,
        pool: Buffer,
        offset: ir.Dim,
        dtype: ir.DType | str | LayoutLike,
        size: Size | None = None,
        *,
        stride: Size | None = None,
        name: str | None = None,
    ) -> Buffer:
        """Cut a slice from a pool. It is storage of its own and must end before the pool.

        Args:
            pool: The pool.
            offset: The start of the slice, in bytes from the start of the pool.
            dtype: Element type, a layout, or a buffer to imitate.
            size: Sizes, in elements.
            stride: Strides, in elements. Row-major by default.
            name: The buffer's name. By default a fresh one.
        """
        layout = self._layout(dtype, size, stride, self._buffer(pool).device)
        buffer = self._new_buffer(name, layout)
        self._emit(ir.AllocateFromPool(buffer.name, pool.name, ir.dim(offset)))
        return buffer

    # Views. As in the program, offsets count from the start of the storage.

    @located
    def reinterpret(
        self,
        source: Buffer,
        size: Size,
        stride: Size | None = None,
        *,
        offset: ir.Dim | None = None,
        dtype: ir.DType | str | None = None,
        name: str | None = None,
    ) -> Buffer:
        """Make a view with other sizes and strides or another element type.

        Args:
            source: The buffer to view.
            size: Sizes, in elements.
            stride: Strides, in elements. Row-major by default.
            offset: The start of the view, in elements of its dtype from the start of the
                *storage*. By default the start of ``source``.
            dtype: Element type. By default that of ``source``.
            name: The view's name. By default a fresh one.

        Raises:
            LayoutError: ``source`` begins inside an element of ``dtype``.
        """
        kind = self._buffer(source).dtype if dtype is None else dtype_of(dtype)
        if offset is None:
            offset = _rescaled_offset(source, kind)
        return self._view(source, self._layout(kind, size, stride, source.device, offset), name)

    @located
    def view(self, source: Buffer, size: Size, *, name: str | None = None) -> Buffer:
        """Make a view of a row-major buffer with other sizes, and as many elements.

        Raises:
            LayoutError: The buffer is not row-major.
        """
        layout = self._buffer(source).layout
        if not layout.is_contiguous:
            reason = "only a row-major buffer can be viewed with other sizes"
            raise LayoutError(given=source, reason=reason)
        sizes = size_of(size)
        strides = ir.contiguous_strides(sizes)
        viewed = ir.Layout(layout.dtype, layout.device, sizes, strides, layout.offset)
        return self._view(source, viewed, name)

    @located
    def permute(self, source: Buffer, order: Sequence[int], *, name: str | None = None) -> Buffer:
        """Make a view with the dimensions in another order.

        ``order`` has the dimension of ``source``, from 0, for each dimension of the view.

        Raises:
            LayoutError: ``order`` does not name each dimension once.
        """
        layout = self._buffer(source).layout
        given: object = order
        if not isinstance(given, Sequence) or sorted(given) != list(range(layout.rank)):
            reason = f"it is not a permutation of {layout.rank} dimensions"
            raise LayoutError(given=given, reason=reason)
        sizes = tuple(layout.size[d] for d in order)
        strides = tuple(layout.stride[d] for d in order)
        viewed = ir.Layout(layout.dtype, layout.device, sizes, strides, layout.offset)
        return self._view(source, viewed, name)

    @located
    def narrow(
        self,
        source: Buffer,
        dimension: int,
        start: ir.Dim,
        length: ir.Dim,
        *,
        name: str | None = None,
    ) -> Buffer:
        """Make a view of a part of a dimension: ``length`` elements from ``start``, from 0.

        Raises:
            LayoutError: There is no such dimension.
        """
        layout = self._buffer(source).layout
        if not 0 <= dimension < layout.rank:
            raise LayoutError(given=source, reason=f"it has no dimension {dimension}")
        sizes = tuple(length if d == dimension else s for d, s in enumerate(layout.size))
        offset = layout.offset + start * layout.stride[dimension]
        viewed = ir.Layout(layout.dtype, layout.device, sizes, layout.stride, offset)
        return self._view(source, viewed, name)

    def _view(self, source: Buffer, layout: ir.Layout, name: str | None) -> Buffer:
        buffer = self._new_buffer(name, layout)
        self._emit(ir.Reinterpret(buffer.name, source.name))
        return buffer


def _rescaled_offset(source: Buffer, dtype: ir.DType) -> ir.Dim:
    """Return a buffer's storage offset in elements of another dtype."""
    offset, have, want = source.layout.offset, source.dtype.itemsize, dtype.itemsize
    if have == want or offset == 0:
        return offset
    if have % want == 0:
        return ir.dim(offset * (have // want))
    if isinstance(offset, int) and offset * have % want == 0:
        return offset * have // want
    reason = f"it does not begin at a whole {dtype.short}; give the offset"
    raise LayoutError(given=source, reason=reason)


# Calls that declare streams, events and memory pools, and that order work on streams.


class Streams(Part):
    """Streams and memory pools, identified by number. Number 0 is the caller's."""

    def stream(self, device: ir.Device | str | None = None) -> int:
        """Declare a stream on a device, by default the builder's, and return its number."""
        self._draft.streams.append(ir.Stream(self._device(device)))
        return len(self._draft.streams)

    def event(self) -> int:
        """Declare an event and return its number."""
        self._draft.events.append(ir.Event())
        return len(self._draft.events)

    def mempool(self, device: ir.Device | str | None = None) -> int:
        """Declare a memory pool on a device, by default the builder's; return its number."""
        self._draft.mempools.append(ir.MemoryPool(self._device(device)))
        return len(self._draft.mempools)

    @contextlib.contextmanager
    def on(self, stream: int = 0, *, mempool: int = 0) -> Iterator[None]:
        """Run the allocations and calls of a ``with`` block on a stream, in a memory pool."""
        draft = self._draft
        before = draft.stream, draft.mempool
        draft.stream, draft.mempool = stream, mempool
        try:
            yield
        finally:
            draft.stream, draft.mempool = before

    @located
    def record(self, event: int, stream: int = 0) -> None:
        """Record an event, by its number, behind the work on a stream so far."""
        self._emit(ir.RecordEvent(event, self._device_of(stream), stream))

    @located
    def wait(self, event: int, stream: int = 0) -> None:
        """Make later work on a stream wait for an event, by its number."""
        self._emit(ir.WaitEvent(event, self._device_of(stream), stream))

    @located
    def synchronize(self, event: int | None = None) -> None:
        """Make the host wait for an event, or for all work on the builder's device."""
        self._emit(ir.Synchronize(self.device) if event is None else ir.WaitEvent(event, ir.CPU))

    def _device_of(self, stream: int) -> ir.Device:
        if stream == 0:
            return self.device
        if not 0 < stream <= len(self._draft.streams):
            raise ArgumentError(callee="the builder", reason=f"it has no stream {stream}")
        return self._draft.streams[stream - 1].device
