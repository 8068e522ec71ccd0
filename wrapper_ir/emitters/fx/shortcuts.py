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

from wrapper_ir import runtime
from wrapper_ir.emitters.fx import library
from wrapper_ir.emitters.fx.kernels import form_named, kinds_named, op_name
from wrapper_ir.emitters.fx.packing import unpack
from wrapper_ir.emitters.fx.triton import launched
from wrapper_ir.runtime import current_stream, empty_strided_cpu

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torch import Tensor

    from wrapper_ir.emitters.fx.triton import PinnedKernel
    from wrapper_ir.lines.layout import Device


_aten: Final[Any] = torch.ops.aten

#: Functions of torch that call exactly this overload, given exactly these arguments.
_SAME: Final[dict[Any, Callable[..., Any]]] = {
    _aten.as_strided.default: torch.as_strided,
    _aten.mm.out: torch.mm,
    _aten.addmm.out: torch.addmm,
    _aten.bmm.out: torch.bmm,
    _aten.baddbmm.out: torch.baddbmm,
}


def shorten(graph: fx.Graph, device: Device | None = None) -> None:
    """Replace what the nodes of a graph call by what costs less and does the same.

    Args:
        graph: The graph.
        device: The accelerator that it will run on, if it uses one and no other.
    """
    makers = {torch.device("cpu"): empty_strided_cpu}
    if device is not None and device.index is not None:
        if device.kind.python.allocator:
            makers[torch.device(str(device))] = getattr(runtime, device.kind.python.allocator)
        _shorten_launches(graph, device.index)
    for node in graph.nodes:
        if node.op != "call_function" or not isinstance(node.target, OpOverload):
            continue
        if node.target.namespace == library.NAMESPACE:
            _shorten_own(node, node.target._opname)  # noqa: SLF001 - its name
        elif node.target is _aten.empty_strided.default:
            _shorten_allocation(node, makers)
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


def _shorten_allocation(
    node: fx.Node, makers: Mapping[torch.device, Callable[..., Tensor]]
) -> None:
    device: Any = node.kwargs.get("device")
    if node.kwargs.keys() == {"dtype", "device"} and device in makers:
        size, stride = node.args
        assert isinstance(size, list)
        assert isinstance(stride, list)
        node.args = (tuple(size), tuple(stride), node.kwargs["dtype"])
        node.kwargs = {}
        node.target = makers[device]


def _shorten_launches(graph: fx.Graph, index: int) -> None:
    """Calls launched kernels directly, on a stream that is looked up once; compiles them."""
    launches = [(node, kernel) for node in graph.nodes if (kernel := launched(node))]
    if not launches:
        return
    with graph.inserting_before(launches[0][0]):
        stream = graph.call_function(current_stream, (index,))
    for node, kernel in launches:
        _shorten_launch(node, kernel, index, stream)


def _shorten_launch(node: fx.Node, kernel: PinnedKernel, index: int, stream: fx.Node) -> None:
    launch: Any = node.kwargs
    given = dict(launch["kwargs"])
    constants = {name: given.pop(name, value) for name, value in kernel.constants.items()}
    if given.keys() != kernel.types.keys():
        return  # an error when it is run
    node.target = kernel.launcher(index, constants)
    node.args = (tuple(launch["grid"][0]), stream, *(given[name] for name in kernel.types))
    node.kwargs = {}
