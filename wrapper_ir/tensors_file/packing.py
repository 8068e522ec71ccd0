"""How tensors are stored, and the file that is written."""

from __future__ import annotations

import hashlib
import json
import os
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from wrapper_ir.tensors_file.layouts import Tensor, TensorsFileError, layout_of, plain

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

#: The key of our metadata in the file.
METADATA: Final = "wrapper_ir"

#: Types that all versions of the format support. Others are stored as bytes.
_NATIVE: Final = frozenset(
    (
        *("float64", "float32", "float16", "bfloat16", "bool"),
        *("int64", "int32", "int16", "int8", "uint8"),
    )
)

#: Stored pieces of memory start at a multiple of this many bytes, which preserves alignment.
_ALIGN: Final = 64


class Piece(NamedTuple):
    """Location of a tensor's value within the stored bytes ``key``."""

    key: str
    offset: int
    stride: tuple[int, ...]


class Packed:
    """Tensors as they are stored.

    Args:
        values: The tensors by name: strided ones of any element type, size, stride and device.

    Attributes:
        tensors: What is stored, by key.
        about: The metadata: ``names``; ``same``, for names of a tensor that is stored under another
            one; and the ``pieces`` of those that are stored as bytes.

    Raises:
        TensorsFileError: A tensor cannot be stored.
    """

    def __init__(self, values: Mapping[str, Tensor]) -> None:
        self.tensors: dict[str, Tensor] = {}
        self._same: dict[str, str] = {}
        self._pieces: dict[str, Piece] = {}
        self.about: dict[str, Any] = {"names": [*values], "same": self._same, "pieces": {}}
        storages: defaultdict[object, dict[str, Tensor]] = defaultdict(dict)
        for name, tensor in values.items():
            check_storable(name, tensor)
            storages[_storage_key(name, tensor)][name] = plain(tensor)
        for tensors in storages.values():
            self._pack_storage(tensors)
        self.about["pieces"] = {name: piece._asdict() for name, piece in self._pieces.items()}

    def describe(self, values: Mapping[str, Tensor]) -> None:
        """Add the layouts of the tensors for readers that do not know them.

        Args:
            values: The same tensors.
        """
        layouts = {n: layout_of(each) for n, each in values.items() if n not in self._same}
        self.about["layouts"] = {
            name: layout
            for name, layout in layouts.items()
            if name in self._pieces or layout != layout_of(self.tensors[name])
        }

    def identity(self) -> str:
        """Return a hash of everything that is stored. Tensors are hashed in parallel."""
        keys = sorted(self.tensors)
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            digests = pool.map(_digest, (self.tensors[key] for key in keys))
            found = [
                (key, str(self.tensors[key].dtype), list(self.tensors[key].shape), digest)
                for key, digest in zip(keys, digests, strict=True)
            ]
        stored = json.dumps([self.about, found], sort_keys=True)
        return hashlib.sha256(stored.encode()).hexdigest()[:32]

    def _pack_storage(self, tensors: Mapping[str, Tensor]) -> None:
        """Store the tensors in one storage, and nothing of what lies between them."""
        apart: list[dict[str, Tensor]] = []
        end = 0
        for name in sorted(tensors, key=lambda each: _start(tensors[each])):
            if not apart or _start(tensors[name]) >= end:
                apart.append({})
            apart[-1][name] = tensors[name]
            end = max(end, _end(tensors[name]))
        for each in apart:
            first = self._pack_memory({name: tensors[name] for name in tensors if name in each})
            if len(apart) > 1:  # safetensors takes no tensors that share a storage
                self.tensors[first] = self.tensors[first].clone()

    def _pack_memory(self, tensors: Mapping[str, Tensor]) -> str:
        """Store one tensor, or several that share memory, and return the name of the first."""
        views: dict[object, str] = {}
        for name, tensor in tensors.items():
            known = views.setdefault((layout_of(tensor), tensor.storage_offset()), name)
            if known != name:
                self._same[name] = known
        first = next(iter(tensors))
        root = tensors[first]
        if len(views) == 1 and layout_of(root).dtype in _NATIVE and not _overlaps(root):
            self.tensors[first] = root.contiguous().cpu()
            return first
        start = min(map(_start, tensors.values())) // _ALIGN * _ALIGN
        end = max(start, *map(_end, tensors.values()))
        import torch  # noqa: PLC0415 - a tensor means torch is loaded

        memory = torch.empty(0, dtype=torch.uint8, device=root.device)
        memory.set_(root.untyped_storage(), start, (end - start,), (1,))
        self.tensors[first] = memory.cpu()
        for name in views.values():
            offset = _start(tensors[name]) - start
            self._pieces[name] = Piece(first, offset, tuple(tensors[name].stride()))
        return first

    def write(self, file: Path, about: Mapping[str, Any]) -> None:
        """Write the file.

        Args:
            file: The file to make.
            about: Further members of the metadata.

        Raises:
            TensorsFileError: A tensor cannot be stored.
        """
        metadata = {METADATA: json.dumps({**self.about, **about}, separators=(",", ":"))}
        if not self.tensors:
            from safetensors import serialize  # noqa: PLC0415 - only where it is needed

            file.write_bytes(serialize({}, metadata))
            return
        from safetensors import SafetensorError  # noqa: PLC0415 - only where it is needed
        from safetensors.torch import save_file  # noqa: PLC0415 - it imports torch

        try:
            save_file(self.tensors, file, metadata)
        except (SafetensorError, RuntimeError, ValueError) as error:
            raise TensorsFileError(str(error)) from error


def _digest(tensor: Tensor) -> str:
    import torch  # noqa: PLC0415 - a tensor means torch is loaded

    return hashlib.sha256(tensor.reshape(-1).view(torch.uint8).numpy()).hexdigest()


def check_storable(name: str, tensor: Tensor) -> None:
    """Raise TensorsFileError unless a tensor has elements in memory that can be stored."""
    import torch  # noqa: PLC0415 - a tensor means torch is loaded

    if tensor.layout is not torch.strided or tensor.is_quantized or tensor.is_meta:
        kind = "meta" if tensor.is_meta else tensor.layout
        kind = "quantized" if tensor.is_quantized else kind
        reason = f"'{name}' is not an ordinary tensor with elements (it is stored as {kind})"
        raise TensorsFileError(reason)
    if name == "__metadata__":
        raise TensorsFileError(f"'{name}' is a name of the file format's own")


def _storage_key(name: str, tensor: Tensor) -> object:
    """Return a key that is equal for tensors that share memory and must be stored together."""
    if tensor.is_conj() or tensor.is_neg() or tensor.numel() == 0:
        return name
    return (str(tensor.device), tensor.untyped_storage().data_ptr())


def _start(tensor: Tensor) -> int:
    return int(tensor.storage_offset() * tensor.element_size())


def _end(tensor: Tensor) -> int:
    if tensor.numel() == 0:
        return _start(tensor)
    last = sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True))
    return _start(tensor) + int((last + 1) * tensor.element_size())


def _overlaps(tensor: Tensor) -> bool:
    """Return whether elements may share memory. When in doubt, true."""
    reach = 0
    for step, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size > 1:
            if step <= reach:
                return True
            reach += (size - 1) * step
    return False
