"""Python functions that Inductor calls like ops, where tuning chose them: what they call.

Each is one of ``extern_kernels``. What it decides when it runs, by layouts, is decided here; what
it asks a GPU or another library is not, and such a function has no form.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import torch

from wrapper_ir.frontends.inductor.compat import extern_kernels
from wrapper_ir.lines.args import BufferArg

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from wrapper_ir.frontends.inductor.convert.state import Scope
    from wrapper_ir.lines.layout import Layout

Call: TypeAlias = "tuple[Any, tuple[Any, ...], Mapping[str, Any]]"
"""An op, and its arguments: Inductor's nodes, or views that are made for the call."""

Function: TypeAlias = "Callable[[Scope, Any, Any], Iterator[Call]]"
"""Gives the calls of a function, of its node and of what it writes into."""


def function_of(node: Any) -> Function | None:
    """Return the form of the function that a node calls; None where it calls something else."""
    name = str(node.python_kernel_name).removeprefix("extern_kernels.")
    return (
        _FUNCTIONS.get(name) if node.op_overload is None and hasattr(extern_kernels, name) else None
    )


def _bias_addmm(scope: Scope, node: Any, out: Any) -> Iterator[Call]:
    """``addmm`` of one row that is added to all: with a vector, cuBLAS adds it on the way."""
    bias, *matrices = node.inputs
    name = scope.reference(bias)
    layout = scope.layout(name)
    if layout.stride[0] == 0 or layout.size[0] == 1:
        name = scope.relaid(name, _chosen(layout, range(1, layout.rank)))
    args = (BufferArg(name), *matrices)
    yield torch.ops.aten.addmm.out, args, {**node.kwargs, "out": out}


def _conv1x1_via_mm(scope: Scope, node: Any, out: Any) -> Iterator[Call]:
    """A convolution of single pixels: a product of matrices, channels last."""
    x, weight = (scope.reference(item) for item in node.inputs)
    views = (
        scope.relaid(x, _chosen(scope.layout(x), (0, 2, 3, 1))),
        scope.relaid(weight, _chosen(scope.layout(weight), (1, 0))),
    )
    result = scope.reference(out)
    result = scope.relaid(result, _chosen(scope.layout(result), (0, 2, 3, 1)))
    args = tuple(map(BufferArg, views))
    yield torch.ops.aten.matmul.out, args, {**node.kwargs, "out": BufferArg(result)}


def _scaled_mm_with_output_scale(scope: Scope, node: Any, out: Any) -> Iterator[Call]:
    """A product of scaled matrices, then its own scale."""
    *args, scale = node.inputs
    yield torch.ops.aten._scaled_mm.out, tuple(args), {**node.kwargs, "out": out}
    yield torch.ops.aten.mul.out, (out, scale), {"out": out}


def _chosen(layout: Layout, dims: Any) -> Layout:
    """Return the layout of a view that has these dimensions, in this order."""
    size = tuple(layout.size[dim] for dim in dims)
    return replace(layout, size=size, stride=tuple(layout.stride[dim] for dim in dims))


_FUNCTIONS: Final[Mapping[str, Function]] = {
    "bias_addmm": _bias_addmm,
    "conv1x1_via_mm": _conv1x1_via_mm,
    "scaled_mm_with_output_scale": _scaled_mm_with_output_scale,
}
