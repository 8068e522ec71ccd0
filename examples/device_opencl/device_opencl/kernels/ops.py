"""Library ops without a kernel for the device: views, and ops that run on host copies."""

import functools

import torch
from torch.fx.node import map_aggregate

from wrapper_ir.runtime import reinterpret_tensor


def view(source, size):
    """Return the same elements in another shape."""
    like = torch.empty_strided(source.size(), source.stride(), device="meta").view(size)
    return reinterpret_tensor(source, tuple(like.size()), like.stride(), 0)


def as_strided(source, size, stride, offset=None):
    """Return a view of the storage."""
    step = 0 if offset is None else offset - source.storage_offset()
    return reinterpret_tensor(source, tuple(size), tuple(stride), step)


def _as_declared(type_, value):
    """Convert an argument to its parameter's type, because torch passes some tensors as numbers."""
    is_number = isinstance(value, (bool, int, float, complex))
    return torch.tensor(value) if is_number and type_ == "Tensor" else value


def on_host(op, *args, **kwargs):
    """Run an op on host copies of its arguments, then copy its writes and results back."""
    schema = op._schema  # noqa: SLF001 - no public name exists
    if any(made.alias_info and not made.alias_info.is_write for made in schema.returns):
        raise NotImplementedError(f"{op} makes a view, which no copy can be")
    copies = {}

    def away(value):
        if isinstance(value, torch.Tensor) and value.device.type == "opencl":
            return copies.setdefault(value, value.cpu())
        return torch.device("cpu") if isinstance(value, torch.device) else value

    def write(value):
        copy = copies.get(value) if isinstance(value, torch.Tensor) else None
        if copy is not None and copy.size() == value.size():
            value.copy_(copy)
        elif copy is not None:  # an op that grows the empty results it is given
            value.data = copy.to("opencl")

    def back(value):
        if not isinstance(value, torch.Tensor):
            return value
        given = [tensor for tensor, copy in copies.items() if copy is value]
        return given[0] if given else value.to("opencl")

    types = [str(arg.type) for arg in schema.arguments]
    args = [_as_declared(type_, value) for type_, value in zip(types, args, strict=False)]
    named = dict(zip((arg.name for arg in schema.arguments), args, strict=False)) | kwargs
    args, kwargs = map_aggregate((args, kwargs), away)
    result = op(*args, **kwargs)
    written = (arg.name for arg in schema.arguments if arg.alias_info and arg.alias_info.is_write)
    map_aggregate([named.get(name) for name in written], write)
    return map_aggregate(result, back)


OPS = {
    "view": view,
    "as_strided": as_strided,
    "_reshape_alias": as_strided,
    "convolution_overrideable": functools.partial(on_host, torch.ops.aten.convolution.default),
}
"""Ops that torch dispatches to the device by name; :func:`on_host` handles all others."""
