"""Conversion of graphs that our own FX emitter wrote: kernels and checks.

The FX emitter's graphs call a program's C++ kernels, and check inputs and results, through ops of
the namespace ``wrapper_ir``. Its graph modules hold the kernels' definitions, from which the calls
are restored. In a graph without definitions, such as an export of such a module, kernels are
ordinary ops.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import sympy

from wrapper_ir.build.draft import range_checks
from wrapper_ir.frontends.aten.calls import call_op
from wrapper_ir.frontends.aten.state import KernelOp, Ref, UnsupportedNodeError
from wrapper_ir.lines.args import Arg, BufferArg, ScalarArg
from wrapper_ir.lines.expr import Dim, FloorDiv, dim, is_relation
from wrapper_ir.lines.kernels import BufferParam, KernelCall, TritonKernel
from wrapper_ir.lines.layout import CPU, Layout
from wrapper_ir.lines.memory import Reinterpret
from wrapper_ir.lines.symbols import AssertApart, AssertLayout, AssertSymbol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch.fx import GraphModule, Node

    from wrapper_ir.frontends.aten.state import GraphWalk
    from wrapper_ir.lines.kernels import KernelDefinition

NAMESPACE: Final = "wrapper_ir::"

#: The attribute in which the FX emitter stores a module's kernels.
_KERNELS: Final = "wrapper_ir_kernels"


def is_emitted(module: GraphModule) -> bool:
    """Return True if the FX emitter made the module."""
    return hasattr(module, _KERNELS)


def kernels_of(module: GraphModule) -> dict[str, KernelOp]:
    """Return the kernels of a module that the FX emitter made, by the names that nodes use."""
    called = getattr(getattr(module, _KERNELS, None), "called", {})
    return {name: KernelOp(*each) for name, each in called.items()}


def convert_launch(walk: GraphWalk, node: Node) -> None:
    """Convert a launch of a Triton kernel of the program that a graph was emitted from."""
    launch = walk.value(dict(node.kwargs))
    kernel = walk.state.kernels.get(str(launch.get("kernel_idx")))
    if kernel is None:
        raise UnsupportedNodeError("its Triton kernel does not come from a program")
    definition = kernel.definition
    assert isinstance(definition.source, TritonKernel)
    named = dict(launch["kwargs"])
    if any(named.pop(key, value) != value for key, value in definition.source.constants):
        raise UnsupportedNodeError("its constants differ from its kernel's")
    if list(named) != [name for name, _ in definition.source.signature]:
        raise UnsupportedNodeError("its arguments do not match its kernel's parameters")
    grid = list(launch["grid"][0])
    while len(grid) > 1 and grid[-1] == 1:
        grid.pop()
    _call(walk, node, definition, list(named.values()), tuple(grid))


def convert_own(walk: GraphWalk, node: Node) -> Any:
    """Convert a call of an op of the namespace ``wrapper_ir``."""
    target: Any = node.target
    name = target.name().removeprefix(NAMESPACE)
    kernel = walk.state.kernels.get(name)
    if kernel is not None:
        return _kernel(walk, node, kernel)
    check = _CHECKS.get(name)
    if check is None:
        return call_op(walk, node)
    values = [walk.value(arg) for arg in node.args]
    check(walk, node, *values)
    return values[0] if name.startswith("lay_out") else None


def _kernel(walk: GraphWalk, node: Node, kernel: KernelOp) -> None:
    definition = kernel.definition
    values = [walk.value(arg) for arg in node.args]
    memories, values = values[: kernel.count], values[kernel.count :]
    if len(values) != len(definition.params):
        raise UnsupportedNodeError("it passes its kernel the wrong number of arguments")
    for position, (param, memory) in enumerate(
        zip(definition.params, kernel.memories, strict=False)
    ):
        if memory is not None and isinstance(param, BufferParam):
            values[position] = _part(walk, node, memories[memory], values[position], param)
    _call(walk, node, definition, values)


def _call(
    walk: GraphWalk,
    node: Node,
    definition: KernelDefinition,
    values: Sequence[Any],
    grid: tuple[Dim, ...] = (),
) -> None:
    """Convert a call of a kernel. It runs on the device of its first tensor not on the CPU."""
    state = walk.state
    state.draft.definitions.setdefault(definition.name, definition)
    args: list[Arg] = []
    devices = []
    for param, value in zip(definition.params, values, strict=True):
        if not isinstance(param, BufferParam):
            args.append(ScalarArg(value))
            continue
        if not isinstance(value, Ref):
            raise UnsupportedNodeError(f"its kernel's parameter '{param.name}' takes a tensor")
        args.append(BufferArg(value.name, param.access))
        devices.append(state.draft.buffers[value.name].device)
    devices.sort(key=CPU.__eq__)
    device = devices[0] if devices else CPU
    walk.emit(KernelCall(definition.name, tuple(args), device, 0, grid, origin=state.origin(node)))


def _part(walk: GraphWalk, node: Node, memory: Any, distance: Any, param: BufferParam) -> Ref:
    """Convert the part of memory from ``distance`` bytes behind its start to its end."""
    if not isinstance(memory, Ref):
        raise UnsupportedNodeError(f"its kernel's parameter '{param.name}' takes a tensor")
    state, size = walk.state, param.dtype.itemsize
    whole = state.draft.buffers[memory.name]
    offset = _divided(dim(whole.offset * whole.dtype.itemsize + distance), size)
    count = _divided(dim(whole.nbytes - distance), size)
    layout = Layout(param.dtype, whole.device, (count,), (1,), offset)
    name = state.define_like(
        f"{memory.name}_{param.name}", layout, state.starts.get(memory.name, 0)
    )
    walk.emit(Reinterpret(name, memory.name, origin=state.origin(node)))
    return Ref(name)


def _divided(value: Dim, divisor: int) -> Dim:
    return value // divisor if isinstance(value, int) else dim(FloorDiv(value, divisor))


def _nothing(walk: GraphWalk, node: Node, *values: Any) -> None:
    """Drop a check that the inputs' layouts and symbols' ranges already make."""


def _result(walk: GraphWalk, node: Node, value: Any, spec: str, *rest: Any) -> None:
    is_input = bool(rest) and rest[-1] is True
    if isinstance(value, Ref) and not is_input:
        subject = str(json.loads(spec)[0])
        walk.emit(AssertLayout(value.name, subject, origin=walk.state.origin(node)))


def _alignment(walk: GraphWalk, node: Node, value: Any, subject: str, alignment: int) -> None:
    if isinstance(value, Ref):
        origin = walk.state.origin(node)
        walk.emit(AssertLayout(value.name, subject, alignment, origin=origin))


def _apart(walk: GraphWalk, node: Node, values: Any, names: Any, written: int) -> None:
    """Emit the check that inputs share no memory."""
    buffers = [value.name for value in values if isinstance(value, Ref)]
    check = AssertApart(
        tuple(buffers[:written]), tuple(buffers[written:]), origin=walk.state.origin(node)
    )
    walk.emit(check)


def emit_check(walk: GraphWalk, node: Node, holds: Any, message: str, *values: Any) -> None:
    """Emit the check of a condition or of a number, which must not be 0."""
    condition = holds if is_relation(holds) else sympy.Ne(holds, 0)
    walk.emit(AssertSymbol(condition, message, origin=walk.state.origin(node)))


def _number(walk: GraphWalk, node: Node, value: Any, name: str, *rest: Any) -> None:
    _, lower, upper = rest
    if isinstance(value, sympy.Basic) and (lower, upper) != (None, None):
        for check in range_checks(value, lower, upper, name, walk.state.origin(node)):
            walk.emit(check)


_CHECKS: Final = {
    "check_inputs": _nothing,
    "check_result": _result,
    "check_sizes": _result,
    "check_alignment": _alignment,
    "check_apart": _apart,
    "check_number": _number,
    "check_that": emit_check,
    # These return the tensor that they check.
    "lay_out": _result,
    "lay_out_sizes": _result,
}
