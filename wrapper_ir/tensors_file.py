"""Named tensors in a safetensors file: how each is stored, in which layout, and reading it again.

Convention: a tensor is stored densely under its own name and dtype, so that other tools can read
the file. If that is not possible (tensors that overlap with others or with themselves, dtypes that
the format lacks), its bytes are stored, and the file's metadata gives their layout. Storages that
were shared are shared again after loading, and names of one tensor are stored once. Tensors are
detached, and are loaded to the CPU.

Strides are in the metadata only if a file is written for readers that do not know the layouts. That
of a program's constants is read with the program. Torch is imported only if there is a tensor.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

#: Within our metadata, the key of the name of the file that the tensors belong to. Two top-level
#: keys would have no fixed order.
OWNER: Final = "of"

#: Within it, the key of the hash of all that is stored, which the text of the program names.
IDENTITY: Final = "hash"

_NAMED: Final = re.compile(r'^values "([^"\n]*)"', re.MULTILINE)

REPLACED: Final = (
    "put back the file that was saved with the program; if other values are meant, delete the line "
    "'values' from the program's text, or save them: program.replace(data=values).save(path)"
)
"""The hint where values are not those that a program's text names."""


def identity_in(text: str) -> str:
    """Return the hash of the values that a program's text names, without parsing it."""
    found = _NAMED.search(text)
    return "" if found is None else found[1]


def owner_of(metadata: Mapping[str, str]) -> str | None:
    """Return the name of the file that tensors belong to, from the metadata of their file.

    The name is empty if not recorded. The result is None for other kinds of files.
    """
    try:
        about = json.loads(metadata.get(METADATA, ""))
    except ValueError:
        return None
    return str(about.get(OWNER, "")) if isinstance(about, dict) else None


Tensor: TypeAlias = Any
"""A ``torch.Tensor``."""


class TensorsFileError(ValueError):
    """A tensor cannot be stored, or a file does not hold what it should.

    Internal: callers turn it into an error for users.
    """


class Layout(NamedTuple):
    """The layout of a tensor: torch's name of its dtype, its size and its strides."""

    dtype: str
    size: tuple[int, ...]
    stride: tuple[int, ...]


def layout_of(tensor: Tensor) -> Layout:
    """Return the layout of a tensor."""
    dtype = str(tensor.dtype).removeprefix("torch.")
    return Layout(dtype, tuple(tensor.shape), tuple(tensor.stride()))


def plain(tensor: Tensor) -> Tensor:
    """Return a tensor without gradients, and neither conjugated nor negated lazily."""
    return tensor.detach().resolve_conj().resolve_neg()


def check_fits(name: str, tensor: Tensor, layout: Layout) -> None:
    """Raise TensorsFileError if the dtype or size of a tensor is not that of a layout."""
    dtype = str(tensor.dtype).removeprefix("torch.")
    compare(name, Layout(dtype, tuple(tensor.shape), ()), layout)


def compare(name: str, found: Layout, wanted: Layout) -> None:
    """Raise TensorsFileError if the dtype or size of a layout is not that of another one."""
    if found.dtype != wanted.dtype:
        reason = f"has dtype {found.dtype}, but the program says {wanted.dtype}"
        raise TensorsFileError(f"'{name}' {reason}")
    if found.size != wanted.size:
        reason = f"has size {found.size}, but the program says {wanted.size}"
        raise TensorsFileError(f"'{name}' {reason}")


def in_layout(tensor: Tensor, layout: Layout) -> Tensor:
    """Return a copy of a tensor in another layout."""
    import torch  # noqa: PLC0415 - there is a tensor to make

    result = torch.empty_strided(layout.size, layout.stride, dtype=tensor.dtype)
    fill(result, tensor)
    return result


def fill(target: Tensor, value: Tensor) -> None:
    """Copy a value into memory. Expanded dimensions are stored once."""
    if 0 in target.stride():
        once = tuple(slice(None) if step else slice(1) for step in target.stride())
        target, value = target[once], value[once]
    target.copy_(value)


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
    """Tensors as they are stored: strided ones of any element type, size, stride and device.

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
        """Add the layouts of the same tensors for readers that do not know them."""
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
        """Write the file, with further members ``about`` it in the metadata.

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


Opened: TypeAlias = Any
"""An open safetensors file, for which the package has no type."""


class Reader:
    """A file of tensors, opened by safetensors. Its metadata is validated: files are not trusted.

    Attributes:
        names: The names of the tensors.
        same: For names of a tensor that is stored under another one, that one.
        about: The other members of the metadata.

    Raises:
        TensorsFileError: It is not a file of this module.
    """

    def __init__(self, opened: Opened) -> None:
        metadata = opened.metadata() or {}
        if METADATA not in metadata:
            raise TensorsFileError("it was not written by wrapper_ir")
        self._opened = opened
        self._stored = frozenset(opened.keys())
        self._memory: dict[str, Tensor] = {}
        about = json.loads(metadata[METADATA])
        if not isinstance(about, dict):
            _damaged()
        self.names: list[str] = _member(about, "names", list)
        self.same: dict[str, str] = _member(about, "same", dict)
        self._pieces: dict[str, Any] = _member(about, "pieces", dict)
        self._layouts: dict[str, Any] = about.pop("layouts", {})
        self.about: dict[str, Any] = about
        if (
            not all(isinstance(name, str) for name in (*self.names, *self.same.values()))
            or not self.same.keys() <= set(self.names)
            or not all(map(_fits, self._pieces.values()))
            or not isinstance(self._layouts, dict)
        ):
            _damaged()

    def has(self, name: str) -> bool:
        """Return whether a tensor's value is there."""
        piece = self._pieces.get(name)
        return (name if piece is None else piece["key"]) in self._stored

    def bytes_of(self, key: str) -> Tensor:
        """Return what is stored under a key."""
        if key not in self._stored:
            raise TensorsFileError(f"the value of '{key}' is missing")
        return self._opened.get_tensor(key)

    def value(self, name: str, layout: Layout | None = None, *, mapped: bool = True) -> Tensor:
        """Return a tensor by a name that is not in :attr:`same`, in a layout that is known.

        If ``mapped``, it may be mapped into memory, where it need not be aligned.

        Raises:
            TensorsFileError: It is not there, or has another dtype or size.
        """
        if name in self._layouts:
            described = _read_layout(self._layouts[name])
            layout = layout or described
            compare(name, described, layout)
        if name in self._pieces:
            return self._view(name, self._pieces[name], layout)
        stored = self.bytes_of(name)
        if layout is None:
            return stored
        found = layout_of(stored)
        if mapped and found == layout:
            return stored
        compare(name, found, layout)
        return in_layout(stored, layout)

    def _view(self, name: str, piece: Mapping[str, Any], layout: Layout | None) -> Tensor:
        import torch  # noqa: PLC0415 - there is a tensor to make

        key = piece["key"]
        if key not in self._memory:
            self._memory[key] = self.bytes_of(key).clone()
        memory = self._memory[key]
        if layout is None:
            _damaged()
        dtype, offset = getattr(torch, layout.dtype, None), piece["offset"]
        if (
            not isinstance(dtype, torch.dtype)
            or memory.dtype != torch.uint8
            or offset % dtype.itemsize
        ):
            raise TensorsFileError(f"the bytes of '{name}' cannot be read as {layout.dtype}")
        typed = memory[: memory.numel() // dtype.itemsize * dtype.itemsize].view(dtype)
        return typed.as_strided(layout.size, piece["stride"], offset // dtype.itemsize)


def _damaged() -> NoReturn:
    raise TensorsFileError("its metadata is damaged")


def _member(about: dict[str, Any], key: str, kind: type) -> Any:  # noqa: ANN401 - of that kind
    value = about.pop(key, None)
    if not isinstance(value, kind):
        _damaged()
    return value


def _fits(piece: object) -> bool:
    """Return whether a JSON value describes a piece."""
    return (
        isinstance(piece, dict)
        and piece.keys() == {*Piece._fields}
        and isinstance(piece["key"], str)
        and isinstance(piece["offset"], int)
        and isinstance(piece["stride"], list)
    )


def _read_layout(value: Any) -> Layout:  # noqa: ANN401 - from JSON
    try:
        dtype, size, stride = value
        return Layout(str(dtype), tuple(map(int, size)), tuple(map(int, stride)))
    except (TypeError, ValueError):
        _damaged()
