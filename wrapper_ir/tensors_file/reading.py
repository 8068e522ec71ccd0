"""Reading a file of tensors, whose metadata is validated, since files are not trusted."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from wrapper_ir.tensors_file.layouts import (
    Layout,
    Tensor,
    TensorsFileError,
    compare,
    in_layout,
    layout_of,
)
from wrapper_ir.tensors_file.packing import METADATA, Piece

if TYPE_CHECKING:
    from collections.abc import Mapping

Opened: TypeAlias = Any
"""An open safetensors file, for which the package has no type."""


class Reader:
    """An open file of tensors. Its metadata is validated, since files are not trusted.

    Args:
        opened: The file as safetensors opens it.

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
        """Return a tensor.

        Args:
            name: Its name, which is not one of :attr:`same`.
            layout: Its layout, if the reader knows it.
            mapped: Whether it may be mapped into memory, where it need not be aligned.

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
