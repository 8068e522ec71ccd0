"""Calls that make, end, rename and view storage."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wrapper_ir.build.base import Part, located
from wrapper_ir.build.errors import LayoutError
from wrapper_ir.build.values import Buffer, LayoutLike, Size, dtype_of, size_of
from wrapper_ir.lines import (
    Allocate,
    AllocateFromPool,
    AllocatePool,
    Device,
    Dim,
    DType,
    Free,
    Layout,
    MemoryKind,
    Reinterpret,
    Reuse,
    contiguous_strides,
    dim,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


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
    ) -> Buffer:
        """New storage."""
        buffer = self._draft.define(name, self._layout(dtype, size, stride, device))
        self._draft.add(Allocate(buffer.name, memory, zeroed, origin=self._draft.here()))
        return buffer

    @located
    def free(self, buffer: Buffer) -> None:
        """Ends a storage; of an input, drops the reference to it."""
        self._draft.add(Free(self._draft.own(buffer).name, origin=self._draft.here()))

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
        """The donor's storage under another name; with the donor's layout if none is given."""
        layout = self._draft.own(donor).layout
        if dtype is not None or size is not None:
            like = donor if dtype is None else dtype
            layout = self._layout(like, size, stride, donor.device)
        buffer = self._draft.define(name, layout)
        self._draft.add(Reuse(buffer.name, donor.name, origin=self._draft.here()))
        return buffer

    @located
    def allocate_pool(
        self,
        nbytes: Dim,
        *,
        device: Device | str | None = None,
        name: str | None = None,
        memory: MemoryKind = MemoryKind.DEFAULT,
    ) -> Buffer:
        """Storage of so many bytes, to be cut up."""
        layout = self._layout(DType.UINT8, (nbytes,), None, device)
        buffer = self._draft.define(name, layout, "pool")
        self._draft.add(AllocatePool(buffer.name, memory, origin=self._draft.here()))
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
        """A slice of a pool, ``offset`` bytes from its start, as storage of its own."""
        layout = self._layout(dtype, size, stride, self._draft.own(pool).device)
        buffer = self._draft.define(name, layout)
        line = AllocateFromPool(buffer.name, pool.name, dim(offset), origin=self._draft.here())
        self._draft.add(line)
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
        """A view with these sizes and strides (row-major by default).

        ``offset`` counts from the start of the storage, in elements of the view's dtype; by default
        the view starts where ``source`` does.
        """
        kind = self._draft.own(source).dtype if dtype is None else dtype_of(dtype)
        if offset is None:
            offset = _rescaled(source, kind)
        layout = self._layout(kind, size, stride, source.device, offset)
        return self._view(source, layout, name)

    @located
    def view(self, source: Buffer, size: Size, *, name: str | None = None) -> Buffer:
        """A view of a row-major buffer with other sizes."""
        layout = self._draft.own(source).layout
        if not layout.is_contiguous:
            reason = "only a row-major buffer can be seen with other sizes without a copy"
            raise LayoutError(given=source, reason=reason)
        sizes = size_of(size)
        strides = contiguous_strides(sizes)
        found = Layout(layout.dtype, layout.device, sizes, strides, layout.offset)
        return self._view(source, found, name)

    @located
    def permute(self, source: Buffer, order: Sequence[int], *, name: str | None = None) -> Buffer:
        """A view with the dimensions in another order."""
        layout = self._draft.own(source).layout
        if sorted(order) != list(range(layout.rank)):
            raise LayoutError(given=list(order), reason=f"it orders no {layout.rank} dimensions")
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
        """A view of ``length`` elements from ``start`` on in one dimension."""
        layout = self._draft.own(source).layout
        if not 0 <= dimension < layout.rank:
            raise LayoutError(given=source, reason=f"it has no dimension {dimension}")
        sizes = tuple(length if d == dimension else s for d, s in enumerate(layout.size))
        offset = layout.offset + start * layout.stride[dimension]
        found = Layout(layout.dtype, layout.device, sizes, layout.stride, offset)
        return self._view(source, found, name)

    def _view(self, source: Buffer, layout: Layout, name: str | None) -> Buffer:
        buffer = self._draft.define(name, layout)
        self._draft.add(Reinterpret(buffer.name, source.name, origin=self._draft.here()))
        return buffer


def _rescaled(source: Buffer, dtype: DType) -> Dim:
    """Where a buffer starts, in elements of another dtype."""
    offset, have, want = source.layout.offset, source.dtype.itemsize, dtype.itemsize
    if have == want or offset == 0:
        return offset
    if have % want == 0:
        return dim(offset * (have // want))
    if isinstance(offset, int) and offset * have % want == 0:
        return offset * have // want
    reason = f"it does not start at a whole {dtype.short}; say the offset"
    raise LayoutError(given=source, reason=reason)
