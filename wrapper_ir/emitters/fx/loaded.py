"""A graph module as an ordinary function, and as one that takes its inputs in a list."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import fx
from torch._ops import OpOverload
from typing_extensions import override

from wrapper_ir import runtime
from wrapper_ir.analysis.liveness import mutated_inputs
from wrapper_ir.emitters.functions import bump_versions, present
from wrapper_ir.emitters.fx import library
from wrapper_ir.emitters.fx.kernels import KERNELS, KernelSet, form_named, kinds_named, op_name
from wrapper_ir.emitters.fx.library import unpack
from wrapper_ir.emitters.fx.triton import launched
from wrapper_ir.lines.control import ObjectInput
from wrapper_ir.runtime import InputCountError, check_object, current_stream, empty_strided_cpu
from wrapper_ir.runtime._private import any_autocast_enabled, no_autocast

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

    from wrapper_ir.emitters.fx.triton import PinnedKernel
    from wrapper_ir.lines.layout import Device
    from wrapper_ir.lines.program import Program


# Shorter ways to what nodes call, for graphs that are only run.
#
# A call through ``torch.ops`` parses its arguments in general ways and goes through the dispatcher:
# 1.6 us for a kernel whose own binding takes 0.03, 4.9 for an allocation of 0.3. A loaded graph is
# a copy that nobody traces or transforms any more, so its nodes may call the same things as emitted
# Python does. What the program's ``graph_module`` calls stays as it is, and so do graphs inside it.

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


BoxedCall = Callable[[list[Any]], tuple[Any, ...]]


class _BoxedCodeGen(fx.graph.CodeGen):
    """Writes a ``forward`` that takes a list and empties it, so that inputs die on time."""

    @override
    def gen_fn_def(self, free_vars: list[str], *args: Any, **kwargs: Any) -> str:
        names = [text.split(":")[0].split("=")[0].strip() for text in free_vars]
        names = [name for name in names if name != "self"]
        inputs = "inputs"
        while inputs in names:
            inputs += "_"
        head = f"def forward(self, {inputs}):"
        if names:
            head += f"\n    {', '.join(names)}, = {inputs}"
        return f"{head}\n    {inputs}.clear()"


def as_boxed(module: fx.GraphModule, device: Device | None = None) -> BoxedCall:
    """A function of one list that runs a graph module's graph; its kernels are compiled now.

    Args:
        module: The module.
        device: The only accelerator that it uses, if it uses one.
    """
    kernels = getattr(module, KERNELS, None)
    if isinstance(kernels, KernelSet):
        kernels.build()
    graph = fx.Graph()
    copied: Any = graph.graph_copy(module.graph, {}, return_output_node=True)
    value, old = copied
    graph.output(value).meta.update(old.meta)
    shorten(graph, device)
    graph.set_codegen(_BoxedCodeGen())
    boxed = fx.GraphModule(module, graph, class_name="Boxed")
    call: BoxedCall = boxed.forward
    if device is None:
        return call
    guarded: BoxedCall = getattr(runtime, device.kind.python.guard)(torch.device(str(device)))(call)
    return guarded


def as_function(call: BoxedCall, program: Program) -> Callable[..., tuple[Any, ...]]:
    """``function(*inputs) -> tuple of results`` for a boxed call.

    Autograd is off inside, and so is autocast: the program was made for the dtypes that it names.
    """
    objects = [(n, i) for n, i in enumerate(program.inputs) if isinstance(i, ObjectInput)]
    count, mutated = len(program.inputs), mutated_inputs(program)
    is_grad_enabled = torch.is_grad_enabled

    def run(*inputs: object) -> tuple[Any, ...]:
        if len(inputs) != count:
            raise InputCountError(expected=count, got=len(inputs))
        for position, item in objects:
            check_object(inputs[position], item.object, item.class_name)
        try:
            if any_autocast_enabled():
                with torch.no_grad(), no_autocast():
                    return call([*inputs])
            if is_grad_enabled():
                with torch.no_grad():
                    return call([*inputs])
            return call([*inputs])
        finally:
            if mutated:
                bump_versions([inputs[position] for position in mutated])

    present(run, program)
    return run
