"""Arguments of straight calls that are tensor subclasses, such as distributed tensors.

A graph takes the plain tensors that they hold, and objects such as the mesh of devices.
AOTAutograd's wrapper takes them out by attributes that are known when the graph is compiled, and
checks the type of each subclass. Both are done on the way to the program, in C++ or here. Where
results are subclasses, where sizes of subclasses are inputs of the graph, and where tensors wait
for a collective that is in flight, torch's wrapper runs as it is.
"""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any, TypeAlias

import torch

from wrapper_ir.frontends.inductor.compat import (
    PlainTensorMeta,
    SubclassCreationMeta,
    inductor_config,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

#: What an argument is taken apart to: its type, and the attributes that lead to each input of the
#: graph. An argument that is one itself has None.
Part: TypeAlias = "tuple[type, tuple[tuple[str, ...], ...]] | None"

_KEY = "_wrapper_ir_inside"

_PLAIN = (torch.Tensor, torch.nn.Parameter)


def noting_inside(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap the method that makes torch's wrapper for subclasses, to note what it calls."""

    @wraps(stock)
    def post_compile(self: Any, compiled_fn: Any, *args: Any, **kwargs: Any) -> Any:
        made = stock(self, compiled_fn, *args, **kwargs)
        if made is not compiled_fn:
            made.__dict__[_KEY] = compiled_fn
        return made

    return post_compile


def inside_of(function: Any) -> Any:
    """Return what torch's wrapper for subclasses calls; None if a function is none."""
    return getattr(function, "__dict__", {}).get(_KEY)


def facts(metadata: Any) -> dict[str, Any]:
    """Return what only torch's wrapper for subclasses does, in words, and whether it does it.

    Args:
        metadata: AOTAutograd's ``ViewAndMutationMeta`` of a graph that takes subclasses, or returns
            them.
    """
    given = [each for each in metadata.subclass_inp_meta if isinstance(each, SubclassCreationMeta)]
    results = metadata.subclass_fw_graph_out_meta
    return {
        "results are tensor subclasses": not all(isinstance(x, PlainTensorMeta) for x in results),
        "sizes of tensor subclasses are inputs": not all(map(_is_static, given)),
        "tensors that a collective fills are waited for": getattr(metadata, "act_input_paths", ()),
        "parameters are frozen in the graph": inductor_config.freezing,
    }


def parts_of(metadata: Any) -> tuple[Part, ...] | None:
    """Return what each argument of a graph is taken apart to; None if all are plain tensors."""
    parts = tuple(
        (_type_of(each), tuple(_paths(each))) if isinstance(each, SubclassCreationMeta) else None
        for each in metadata.subclass_inp_meta
    )
    return parts if any(parts) else None


def taken_apart(parts: Sequence[Part] | None, args: Sequence[Any]) -> Sequence[Any] | None:
    """Return what arguments are or hold; None if a tensor has another type than expected."""
    if parts is None:
        return args
    found: list[Any] = []
    for part, arg in zip(parts, args, strict=True):
        if part is None:
            found.append(arg)
            continue
        kind, paths = part
        if type(arg) is not kind:
            return None
        for path in paths:
            value = arg
            for name in path:
                value = getattr(value, name)
            if isinstance(value, torch.Tensor) and type(value) not in _PLAIN:
                return None
            found.append(value)
    return found


def _type_of(meta: Any) -> type:
    kind: type | None = meta.original_subclass_type
    return kind or type(meta.original_subclass)


def _paths(meta: Any) -> Iterator[tuple[str, ...]]:
    """Yield the attributes that lead to each input of the graph, in its order."""
    for name, inner in meta.attrs.items():
        if isinstance(inner, SubclassCreationMeta):
            yield from ((name, *path) for path in _paths(inner))
        else:
            yield (name,)


def _is_static(meta: Any) -> bool:
    """Return whether all sizes and strides of a subclass, and of what it holds, are numbers."""
    if isinstance(meta, PlainTensorMeta):
        placeholders = ("size_symbol_placeholders", "stride_symbol_placeholders")
        return not any(any(getattr(meta, each, ())) for each in placeholders)
    if not isinstance(meta, SubclassCreationMeta):
        return True
    numbers = (*meta.outer_size, *meta.outer_stride)
    return all(type(n) is int for n in numbers) and all(map(_is_static, meta.attrs.values()))
