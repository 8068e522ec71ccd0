"""Shorter ways to what nodes call, for graphs that are only run.

A call through ``torch.ops`` parses its arguments in general ways and goes through the dispatcher:
1.6 us for a kernel whose own binding takes 0.03, 4.9 for an allocation of 0.3. A loaded graph is a
copy that nobody traces or transforms any more, so its nodes may call the same things as emitted
Python does. What the program's ``graph_module`` calls stays as it is, and so do graphs inside it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import torch
from torch import fx
from torch._ops import OpOverload

from wrapper_ir.emitters.fx import library
from wrapper_ir.emitters.fx.kernels import form_named, kinds_named, op_name
from wrapper_ir.emitters.fx.packing import unpack
from wrapper_ir.runtime import empty_strided_cpu

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["shorten"]

_aten: Final[Any] = torch.ops.aten

#: Functions of torch that call exactly this overload, given exactly these arguments.
_SAME: Final[dict[Any, Callable[..., Any]]] = {
    _aten.as_strided.default: torch.as_strided,
    _aten.mm.out: torch.mm,
    _aten.addmm.out: torch.addmm,
    _aten.bmm.out: torch.bmm,
    _aten.baddbmm.out: torch.baddbmm,
}

_CPU: Final = torch.device("cpu")


def shorten(graph: fx.Graph) -> None:
    """Replace what the nodes of a graph call by what costs less and does the same."""
    for node in graph.nodes:
        if node.op != "call_function" or not isinstance(node.target, OpOverload):
            continue
        if node.target.namespace == library.NAMESPACE:
            _shorten_own(node, node.target._opname)  # noqa: SLF001 - its name
        elif node.target is _aten.empty_strided.default:
            _shorten_allocation(node)
        else:
            node.target = _SAME.get(node.target, node.target)


def _shorten_own(node: fx.Node, name: str) -> None:
    """Calls what an op of ours does; a kernel's binding takes places in memory as they are."""
    form = form_named(name)
    node.args = unpack(form.kinds if form is not None else kinds_named(name), node.args)
    if form is not None:
        name = op_name(form.definition)
        memories, args = node.args[: form.count], node.args[form.count :]
        node.args = tuple(
            arg if number is None else (memories[number], arg)
            for number, arg in zip(form.memories, args, strict=True)
        )
    node.target = library.implementation(name)


def _shorten_allocation(node: fx.Node) -> None:
    if node.kwargs.keys() == {"dtype", "device"} and node.kwargs["device"] == _CPU:
        size, stride = node.args
        assert isinstance(size, list)
        assert isinstance(stride, list)
        node.args = (tuple(size), tuple(stride), node.kwargs["dtype"])
        node.kwargs = {}
        node.target = empty_strided_cpu
