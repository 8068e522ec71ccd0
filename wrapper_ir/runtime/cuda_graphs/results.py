"""Inputs and results of a captured call: buffers, copies, results in fresh memory.

A replay writes its results to the addresses of the captured call. A caller's results must survive
the next replay, so they are copied, once for each storage, so that results that share memory still
share it. A result that is a view of an input or a constant is returned as a view.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import torch
from torch import Tensor

from wrapper_ir.runtime._private import reinterpret_tensor
from wrapper_ir.runtime._private_cuda import empty_strided_cuda
from wrapper_ir.runtime.apart import elements, extent, span
from wrapper_ir.runtime.views import reinterpret_as

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping, Sequence


class UncopiedError(Exception):
    """A replay cannot return a result; the text gives the reason."""


_Recipe: TypeAlias = "Callable[[Sequence[Any], Sequence[Tensor]], Any]"
"""Makes one result from the call's inputs and the copies of captured memory."""

_View: TypeAlias = tuple[torch.dtype, tuple[int, ...], tuple[int, ...], int]
"""The dtype, size, stride and byte offset of a view."""


def _same(value: object) -> _Recipe:
    """Return the same value in every call: a number, a constant."""
    return lambda args, fresh: value


def _input(position: int) -> _Recipe:
    return lambda args, fresh: args[position]


def _view_of(base: _Recipe, view: _View) -> _Recipe:
    return lambda args, fresh: reinterpret_as(base(args, fresh), *view)


class Results:
    """The results of replays of a captured call.

    Raises:
        UncopiedError: A result is on another device.
    """

    def __init__(self, planner: Planner) -> None:
        self._plan = list(itertools.starmap(planner.plan, enumerate(planner.captured)))
        self._sources = planner.sources
        self._like = [(tuple(s.shape), tuple(s.stride()), s.dtype) for s in planner.sources]
        self._empty = _allocator(planner.device)
        are_equal = len(planner.captured) == len(self._sources) == 1
        self._is_single = are_equal and self._sources[0] is planner.captured[0]

    def give(self, args: Sequence[Any]) -> tuple[Any, ...]:
        """Return the results of a call that was just replayed with ``args``."""
        empty = self._empty
        fresh = [empty(*layout) for layout in self._like]
        copy_dense(fresh, self._sources)
        if self._is_single:
            return (fresh[0],)
        return tuple([recipe(args, fresh) for recipe in self._plan])


class Planner:
    """A builder of recipes for results. It holds inputs, so it must be short-lived.

    ``args`` are the call's tensor inputs by position; for copied inputs, their buffers. Results at
    ``shared`` positions are in memory that the next replay overwrites.
    """

    def __init__(
        self,
        captured: Sequence[Any],
        args: Mapping[int, Tensor],
        constants: Sequence[Tensor],
        device: torch.device,
        *,
        shared: Container[int],
    ) -> None:
        self.captured: Sequence[Any] = captured
        self.device: torch.device = device
        self.sources: list[Tensor] = []
        self._args = args
        self._inputs = {_storage(tensor): position for position, tensor in args.items()}
        self._constants = {_storage(tensor): tensor for tensor in constants}
        self._shared = shared
        self._groups: dict[int, list[Tensor]] = {}
        for result in captured:
            if isinstance(result, Tensor) and result.numel():
                self._groups.setdefault(_storage(result), []).append(result)
        self._copies: dict[int, _Recipe] = {}

    def plan(self, number: int, result: Any) -> _Recipe:  # noqa: ANN401 - of any type
        """Return the recipe of a result; ``number`` is its position."""
        if not isinstance(result, Tensor):
            return _same(result)
        for position, tensor in self._args.items():
            if result is tensor:
                return _input(position)
        storage = _storage(result)
        if result.numel() and storage in self._inputs:
            position = self._inputs[storage]
            return _view_of(_input(position), _view(result, self._args[position].data_ptr()))
        if result.numel() and storage in self._constants:
            constant = self._constants[storage]
            return _same(constant) if result is constant else _another(result)
        if result.device != self.device:
            raise UncopiedError(f"result {number} is on {result.device}")
        if number in self._shared:
            return _another(result)
        return self._copied(storage, result)

    def _copied(self, storage: int, result: Tensor) -> _Recipe:
        group = self._groups.get(storage, [])
        if len(group) < 2 and is_dense(result.shape, result.stride()):
            return self._add(result)
        # Copy the whole range that the group covers, from a multiple of 16 to keep alignments.
        start = min(tensor.data_ptr() for tensor in group)
        start -= start % 16
        if storage not in self._copies:
            end = max(span(tensor)[1] for tensor in group)
            offset = start - result.data_ptr()
            whole = reinterpret_as(result, torch.uint8, (end - start,), (1,), offset)
            self._copies[storage] = self._add(whole)
        return _view_of(self._copies[storage], _view(result, start))

    def _add(self, source: Tensor) -> _Recipe:
        index = len(self.sources)
        self.sources.append(source)
        return lambda args, fresh: fresh[index]


def _allocator(
    device: torch.device,
) -> Callable[[Sequence[int], Sequence[int], torch.dtype], Tensor]:
    """Return the allocator of a device: ``(size, stride, dtype)``."""
    if device.type == "cuda" and torch.cuda.device_count() == 1:
        return empty_strided_cuda
    return lambda size, stride, dtype: torch.empty_strided(size, stride, dtype=dtype, device=device)


def _another(result: Tensor) -> _Recipe:
    """Return the recipe of a new tensor over the same memory in every call."""
    return _view_of(_same(result), _view(result, result.data_ptr()))


def _storage(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _view(tensor: Tensor, start: int) -> _View:
    """Return a tensor's layout and its byte offset from an address."""
    return tensor.dtype, tuple(tensor.shape), tuple(tensor.stride()), tensor.data_ptr() - start


#: The largest ratio of a tensor's extent to the bytes of its elements.
_GAPS: Final = 4

_SMALL: Final = 16 * 1024 * 1024
"""Bytes up to which gaps do not matter."""


def is_dense(size: Sequence[int], stride: Sequence[int]) -> bool:
    """Return whether a tensor's elements fill their memory without gaps or overlaps."""
    if 0 in size:
        return True
    expected = 1
    for step, n in sorted((s, n) for n, s in zip(size, stride, strict=True) if n != 1):
        if step != expected:
            return False
        expected *= n
    return True


def is_expanded(tensor: Tensor) -> bool:
    """Return whether a dimension is expanded."""
    pairs = zip(tensor.shape, tensor.stride(), strict=True)
    return any(step == 0 and size > 1 for size, step in pairs)


def is_sparse_in_memory(tensor: Tensor) -> bool:
    """Return whether there is much memory between a tensor's elements."""
    return extent(tensor) > max(_SMALL, _GAPS * tensor.numel() * tensor.element_size())


def place_like(tensor: Tensor) -> Tensor:
    """Allocate a tensor of the same size, strides and dtype."""
    size, stride = tensor.shape, tensor.stride()
    with torch.inference_mode(mode=False):  # a later call may be out of that mode
        flat = torch.empty(elements(size, stride), dtype=tensor.dtype, device=tensor.device)
        return flat.as_strided(size, stride)


def copy(targets: Sequence[Tensor], sources: Sequence[Tensor]) -> None:
    """Copy tensors to others of the same size and strides, dense or not."""
    into: list[Tensor] = []
    of: list[Tensor] = []
    for target, source in zip(targets, sources, strict=True):
        size, stride = target.shape, target.stride()
        if is_dense(size, stride):
            into.append(target)
            of.append(source)
        else:  # elements may overlap; copying the gaps between them does no harm
            flat = (elements(size, stride),), (1,)
            into.append(reinterpret_tensor(target, *flat))
            of.append(reinterpret_tensor(source, *flat))
    copy_dense(into, of)


def copy_dense(targets: list[Tensor], sources: list[Tensor]) -> None:
    """Copy dense tensors."""
    if torch.is_grad_enabled():  # autograd must not record these copies
        with torch.no_grad():
            _copy(targets, sources)
    else:
        _copy(targets, sources)


def _copy(targets: list[Tensor], sources: list[Tensor]) -> None:
    if len(targets) == 1:
        targets[0].copy_(sources[0])
    elif targets:
        torch._foreach_copy_(targets, sources)
