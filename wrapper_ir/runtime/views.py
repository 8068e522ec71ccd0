"""Views of tensors: new ones, views in another dtype, and views kept between calls.

A program that passes transposed weights to a library makes the same views in every call, and a view
costs about as much as a small kernel. :class:`KeptViews` makes them once. It reuses a view only
while both are where they were when it was made, so the next call sees any replacement of a weight
(``load_state_dict``, with or without ``assign``, ``weight.data = ...``, a new parameter). The
source's address alone is not sufficient: FSDP2 frees the memory of a weight under its views, and
that of the next one may be put there. Other metadata of sources is left to the input checks.

Views do not keep anything alive: a view is dropped when its source dies. (A weight whose ``data``
was replaced is released by the next call.)
"""

from __future__ import annotations

import threading
import weakref
from operator import itemgetter
from typing import TYPE_CHECKING, Final, NamedTuple

import torch
from torch import Tensor

from wrapper_ir.errors import WrapperIRError
from wrapper_ir.runtime._private import reinterpret_tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_data_ptr: Final = Tensor.data_ptr


class MisalignedViewError(WrapperIRError):
    """A view in another dtype would begin in the middle of an element.

    Fields: ``offset`` in bytes from the start of the storage, ``dtype``.
    """

    code = "WIR2155"
    template = "a view of {dtype} begins {offset} bytes into its storage, inside an element"


def reinterpret_as(
    source: Tensor, dtype: torch.dtype, size: Sequence[int], stride: Sequence[int], offset: int
) -> Tensor:
    """Return a view of a tensor's storage in another dtype, with strides in its elements.

    ``offset`` is its start, in bytes from the start of ``source``.

    Raises:
        MisalignedViewError: The view would begin in the middle of an element.
    """
    start = int(source.storage_offset()) * source.element_size() + offset
    elements, rest = divmod(start, dtype.itemsize)
    if rest:
        raise MisalignedViewError(offset=start, dtype=dtype)
    # An empty view at the storage's start can be viewed in any dtype, on any device.
    nothing = reinterpret_tensor(source, (0,), (1,), -source.storage_offset())
    return reinterpret_tensor(nothing.view(dtype), size, stride, elements)


class _Kept(NamedTuple):
    """Kept views. The tuple is replaced as a whole, so threads see either old or new views."""

    positions: tuple[int, ...]  #: the sources whose views are kept: all but those that move
    moving: tuple[int, ...]
    pick: Callable[[tuple[Tensor, ...]], tuple[Tensor, ...]]
    """Selects the sources at ``positions``."""
    pointers: list[int]
    views: tuple[Tensor, ...]
    starts: list[int]
    """The address of each view, which moves with its memory."""
    owners: tuple[weakref.ref[Tensor], ...]
    """An address is valid while its tensor is alive; entries of dead tensors are dropped."""


_NO_VIEW: Final = torch.empty(0)

_NOWHERE: Final = -1
"""No tensor's address."""

#: A source that changes more often than this is not a weight; its view is then made in every call.
_PATIENCE: Final = 3


class KeptViews:
    """Views of tensors most of which are the same in every call.

    Args:
        *views: Size, stride and offset of each source's view, in elements. The offset is relative
            to the source's own.

    It is thread-safe. If a source is another tensor call after call, its view is no longer kept.
    A parameter that takes the place of one that is gone is no other; one of several that take
    turns, such as those of blocks that share a program, is.
    """

    def __init__(self, *views: tuple[Sequence[int], Sequence[int], int]) -> None:
        self._views = views
        self._changes = [0] * len(views)
        self._kept = _nothing(len(views))
        # Held only while replacing the kept views. Reentrant, since owners may die at any point.
        self._replacing = threading.RLock()
        me = weakref.ref(self)
        self._on_death: Callable[[weakref.ref[Tensor]], None] = lambda owner: _forget(me, owner)

    def of(self, *sources: Tensor) -> Sequence[Tensor]:
        """Return the view of each source."""
        kept = self._kept
        if kept.moving:
            return self._of_some(kept, sources)
        if self._fits(kept, sources):
            return kept.views
        return self._renew(kept, sources)

    @staticmethod
    def _fits(kept: _Kept, steady: tuple[Tensor, ...]) -> bool:
        """Return whether sources and their views are where they were."""
        return [*map(_data_ptr, steady)] == kept.pointers and (
            [*map(_data_ptr, kept.views)] == kept.starts
        )

    def _of_some(self, kept: _Kept, sources: tuple[Tensor, ...]) -> Sequence[Tensor]:
        """Return the view of each source if some sources move."""
        steady = kept.pick(sources)
        if not self._fits(kept, steady):
            return self._renew(kept, sources)
        views = list(kept.views)
        for position in kept.moving:  # in ascending order, so each lands in its place
            views.insert(position, self._make(position, sources[position]))
        return views

    def _renew(self, kept: _Kept, sources: tuple[Tensor, ...]) -> Sequence[Tensor]:
        """Make what changed, keep the rest, and learn which sources move."""
        places = zip(kept.positions, kept.pointers, kept.starts, strict=False)
        known = {position: place for position, *place in places}
        old = dict(zip(kept.positions, kept.views, strict=False))
        owners = dict(zip(kept.positions, kept.owners, strict=False))
        views = []
        for position, source in enumerate(sources):
            view = old.get(position)
            place = None if view is None else [source.data_ptr(), view.data_ptr()]
            if view is None or known[position] != place:
                view = self._make(position, source)
                self._changes[position] += _is_other(source, owners.get(position))
            views.append(view)
        moves = [changes > _PATIENCE for changes in self._changes]
        steady = tuple(position for position, move in enumerate(moves) if not move)
        renewed = _Kept(
            steady,
            tuple(position for position, move in enumerate(moves) if move),
            _picker(steady, len(sources)),
            [sources[n].data_ptr() for n in steady],
            tuple(views[n] for n in steady),
            [views[n].data_ptr() for n in steady],
            tuple(weakref.ref(sources[n], self._on_death) for n in steady),
        )
        with self._replacing:
            self._kept = renewed  # its owners are alive: the caller holds them
        return views

    def _make(self, position: int, source: Tensor) -> Tensor:
        size, stride, offset = self._views[position]
        if torch.is_inference_mode_enabled():
            # A later call may be outside inference mode and could not use an inference tensor.
            with torch.inference_mode(mode=False):
                return reinterpret_tensor(source, size, stride, offset)
        return reinterpret_tensor(source, size, stride, offset)

    def _drop(self, owner: weakref.ref[Tensor]) -> None:
        """Drop the view of a dying source; called before its memory can be reused."""
        with self._replacing:
            kept = self._kept
            stays = [each is not owner for each in kept.owners]
            if all(stays):
                return
            self._kept = kept._replace(
                pointers=[
                    pointer if stay else _NOWHERE
                    for pointer, stay in zip(kept.pointers, stays, strict=True)
                ],
                views=tuple(
                    view if stay else _NO_VIEW for view, stay in zip(kept.views, stays, strict=True)
                ),
            )


def _nothing(count: int) -> _Kept:
    """Return the initial state, which matches no sources."""
    return _Kept(tuple(range(count)), (), tuple, [_NOWHERE] * count, (), [], ())


def _is_other(source: Tensor, owner: weakref.ref[Tensor] | None) -> bool:
    """Return whether a source is another one than the last, rather than a weight's replacement."""
    if not isinstance(source, torch.nn.Parameter):
        return True
    last = None if owner is None else owner()
    return last is not None and last is not source


def _picker(
    positions: tuple[int, ...], count: int
) -> Callable[[tuple[Tensor, ...]], tuple[Tensor, ...]]:
    if len(positions) == count:
        return tuple
    if len(positions) > 1:
        return itemgetter(*positions)
    return lambda sources: tuple(sources[n] for n in positions)


def _forget(me: weakref.ref[KeptViews], owner: weakref.ref[Tensor]) -> None:
    views = me()
    if views is not None:
        views._drop(owner)  # noqa: SLF001 - its own
