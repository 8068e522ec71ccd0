"""Looking over the shoulder of a call: what it changed against what it may change."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch

from wrapper_ir.interpreter.errors import BrokenPromiseError, RedZoneError, StrayWriteError
from wrapper_ir.interpreter.memory import all_bytes, is_bare, memory_of
from wrapper_ir.lines.args import Access

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from torch import Tensor

    from wrapper_ir.interpreter.frame import Buffer
    from wrapper_ir.interpreter.memory import Storage

__all__ = ["Watch", "is_plain"]


class _Memory(NamedTuple):
    """The memory behind some arguments, before the call."""

    bytes: Tensor
    before: Tensor
    may_change: Tensor
    names: list[str]


class Watch:
    """Memory that a call may change, with its contents before the call.

    Args:
        call: What errors call it.
        args: The buffers that it is passed, with what it may do to them.
    """

    def __init__(self, call: str, args: Sequence[tuple[Buffer, Access]]) -> None:
        self._call = call
        self._args = args
        self._shapes = [_shape(buffer.tensor) for buffer, _ in args]
        self._memories: dict[int, _Memory] = {}
        for buffer, access in args:
            if is_plain(buffer.tensor) and memory_of(buffer.tensor):
                self._note(buffer, access)

    def _note(self, buffer: Buffer, access: Access) -> None:
        key = memory_of(buffer.tensor)
        if key not in self._memories:
            found = all_bytes(buffer.tensor)
            mask = torch.zeros(found.shape, dtype=torch.bool)
            self._memories[key] = _Memory(found, found.clone(), mask, [])
        memory = self._memories[key]
        memory.names.append(buffer.name)
        if access is not Access.READ:
            _elements(memory.may_change, buffer.tensor).fill_(True)  # noqa: FBT003 - a value

    def check(self, storages: Iterable[Storage]) -> None:
        """Compares; ``storages`` are all that live.

        Raises:
            BrokenPromiseError: An argument has another shape or place now.
            StrayWriteError: Bytes changed that may not.
            RedZoneError: The call wrote outside of a storage.
        """
        for (buffer, _), before in zip(self._args, self._shapes, strict=True):
            if _shape(buffer.tensor) != before:
                what = f"it resized or moved %{buffer.name}"
                raise BrokenPromiseError(call=self._call, what=what)
        for memory in self._memories.values():
            self._compare(memory)
        for storage in storages:
            damage = storage.block.damage() if storage.block is not None else ""
            if damage:
                raise RedZoneError(call=self._call, name=storage.owner, where=damage)

    def _compare(self, memory: _Memory) -> None:
        stray = (memory.bytes != memory.before) & ~memory.may_change
        found = stray.nonzero()
        if len(found):
            raise StrayWriteError(
                call=self._call, count=len(found), name=memory.names[0], at=int(found[0])
            )


def is_plain(tensor: Tensor) -> bool:
    """Return whether a tensor's elements are exactly what its memory holds."""
    return (
        tensor.layout is torch.strided
        and not tensor.is_quantized
        and not tensor.is_conj()
        and not tensor.is_neg()
        and tensor.device.type == "cpu"
        and not is_bare(tensor)
    )


def _shape(tensor: Tensor) -> object:
    if tensor.layout is not torch.strided:
        return tensor.shape
    return tensor.shape, tensor.stride(), tensor.storage_offset(), memory_of(tensor)


def _elements(mask: Tensor, tensor: Tensor) -> Tensor:
    """The part of a mask of bytes that the elements of a tensor lie in."""
    item = tensor.element_size()
    pairs = zip(tensor.shape, tensor.stride(), strict=True)
    kept = [(n, step) for n, step in pairs if step != 0 or n == 0]
    size = [*(n for n, _ in kept), item]
    stride = [*(step * item for _, step in kept), 1]
    return mask.as_strided(size, stride, tensor.storage_offset() * item)
