"""Results of a captured call, in fresh memory.

A replay writes its results to the addresses of the captured call. A caller's results must survive
the next replay, so they are copied, once for each storage, so that results that share memory still
share it. A result that is a view of an input or a constant is returned as a view.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch import Tensor

from wrapper_ir.runtime._private_cuda import empty_strided_cuda
from wrapper_ir.runtime.apart import span
from wrapper_ir.runtime.cuda_graphs.places import copy_dense, is_dense
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

    Args:
        captured: The results of the captured call.
        args: Its tensor inputs by position; for copied inputs, their buffers.
        constants: Tensors of the program.
        device: The device of the results.
        shared: Positions of results in memory that the next replay overwrites.

    Raises:
        UncopiedError: A result is on another device.
    """

    def __init__(
        self,
        captured: Sequence[Any],
        args: Mapping[int, Tensor],
        constants: Sequence[Tensor],
        device: torch.device,
        *,
        shared: Container[int] = (),
    ) -> None:
        planner = _Planner(captured, args, constants, device, shared=shared)
        self._plan = [planner.plan(number, result) for number, result in enumerate(captured)]
        self._sources = planner.sources
        self._like = [(tuple(s.shape), tuple(s.stride()), s.dtype) for s in planner.sources]
        self._empty = _allocator(device)
        self._is_single = len(captured) == len(self._sources) == 1 and (
            self._sources[0] is captured[0]
        )

    def give(self, args: Sequence[Any]) -> tuple[Any, ...]:
        """Return the results of a call that was just replayed with ``args``."""
        empty = self._empty
        fresh = [empty(*layout) for layout in self._like]
        copy_dense(fresh, self._sources)
        if self._is_single:
            return (fresh[0],)
        return tuple([recipe(args, fresh) for recipe in self._plan])


class _Planner:
    """A builder of recipes for results. It holds inputs, so it must be short-lived."""

    def __init__(
        self,
        captured: Sequence[Any],
        args: Mapping[int, Tensor],
        constants: Sequence[Tensor],
        device: torch.device,
        *,
        shared: Container[int],
    ) -> None:
        self.sources: list[Tensor] = []
        self._args = args
        self._inputs = {_storage(tensor): position for position, tensor in args.items()}
        self._constants = {_storage(tensor): tensor for tensor in constants}
        self._device, self._shared = device, shared
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
        if result.device != self._device:
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
