"""Layouts of tensors, and values in other layouts. Torch is imported only if there is a tensor."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

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
