"""A graph module as an ordinary function, and as one that takes its inputs in a list."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import fx
from typing_extensions import override

from wrapper_ir import runtime
from wrapper_ir.analysis.storage import mutated_inputs
from wrapper_ir.emitters.functions import bump_versions, present
from wrapper_ir.emitters.fx.kernels import KERNELS, KernelSet
from wrapper_ir.emitters.fx.shortcuts import shorten
from wrapper_ir.lines.control import ObjectInput
from wrapper_ir.runtime import InputCountError, check_object
from wrapper_ir.runtime._private import any_autocast_enabled, no_autocast

if TYPE_CHECKING:
    from wrapper_ir.lines.layout import Device
    from wrapper_ir.lines.program import Program


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
