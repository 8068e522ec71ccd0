"""Calls of operators of our own, in place of Python functions that Inductor's wrapper calls.

The operators are in ``wrapper_ir.runtime.own_ops``, which is imported for the first call of one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from wrapper_ir.frontends.common.ops import call_of
from wrapper_ir.frontends.inductor.compat import inductor_config, ir
from wrapper_ir.frontends.inductor.convert.arguments import is_tensor
from wrapper_ir.frontends.inductor.errors import UnsupportedLineError
from wrapper_ir.lines.args import BufferArg, BufferValue, StringArg
from wrapper_ir.lines.control import BufferInput
from wrapper_ir.lines.layout import CPU, DType, Layout

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    from wrapper_ir.frontends.inductor.convert.state import Scope
    from wrapper_ir.lines.args import Value
    from wrapper_ir.lines.control import Input
    from wrapper_ir.lines.kernels import ExternKernel

# Inductor's checks for NaN and infinity (``nan_asserts``).
#
# Inductor asserts in Python that a graph's inputs and results are finite, and also, in text after
# its call, each Triton kernel's arguments.


def add_checks(scope: Scope, start: int, inputs: Sequence[Input], results: Sequence[Value]) -> None:
    """Check the inputs before the line ``start`` and the results at the end, if enabled."""
    if not inductor_config.nan_asserts:
        return
    names = [each.name for each in inputs if isinstance(each, BufferInput)]
    returned = dict.fromkeys(each.buffer for each in results if isinstance(each, BufferValue))
    scope.body[start:start] = [_line(scope, name, f"input '{name}'") for name in names]
    scope.body += [_line(scope, name, f"result '{name}'") for name in returned]


def add_check(scope: Scope, text: str, kernel: str, passed: Sequence[str]) -> bool:
    """Check a buffer after a kernel call if that is what the text does, and return whether it is.

    Inductor has one such text for NaN and one for infinity. ``kernel`` is the last kernel called,
    and ``passed`` are Inductor's names of its arguments.
    """
    if not inductor_config.nan_asserts:
        return False
    for name in passed:
        if text == f"assert not {name}.isnan().any().item()":
            scope.emit(_line(scope, scope.resolve(name), f"'{name}' after '{kernel}'"))
            return True
        if text == f"assert not {name}.isinf().any().item()":
            return True  # one call finds both
    return False


def _line(scope: Scope, buffer: str, name: str) -> ExternKernel:
    from wrapper_ir.runtime import own_ops  # noqa: PLC0415 - registers ops

    return call_of(scope.draft, own_ops.FINITE, (BufferArg(buffer), StringArg(name)))


# Inductor's hooks for intermediate values (``generate_intermediate_hooks``).
#
# Inductor calls a Python function after each node that it shows.


def hooked_name(node: Any) -> str:
    """Return the name under which the hooks see an IR node's result; empty if they do not.

    Inductor knows the origin of single tensors only, not of several results of one call.
    """
    if not inductor_config.generate_intermediate_hooks or not isinstance(node.layout, ir.Layout):
        return ""
    origin = node.get_origin_node()
    return str(origin.name) if origin is not None else ""


# ``torch._higher_order_ops.print``, which prints while a program runs.
#
# Inductor calls Python's ``print``, with tensors and numbers mixed.


def print_arguments(node: Any) -> tuple[Any, ...]:
    """Return the op's arguments for an IR node that prints tensors and numbers."""
    from wrapper_ir.runtime import own_ops  # noqa: PLC0415 - registers ops

    (text, *args), kwargs = node.unflatten_args(node.inputs, node.constant_args)
    tensors: list[Any] = []
    numbers: list[Any] = []
    given: list[str] = []
    named = {**node.kwargs, **kwargs}
    for name, value in [*(("", value) for value in args), *named.items()]:
        kind = own_ops.TENSOR if is_tensor(value) else own_ops.NUMBER
        if isinstance(value, (str, list, tuple, dict, type(None))):
            raise UnsupportedLineError(
                kind="call of print",
                text=repr(text),
                why=f"it prints a value of type {type(value).__name__}",
            )
        (tensors if kind == own_ops.TENSOR else numbers).append(value)
        given.append(f"{name}={kind}" if name else kind)
    return text, tensors, numbers, given


# Random ops that are rerun with the generator state of their first run.
#
# Checkpointed code calls random ops in the forward and again in the backward, and must draw the
# same numbers. Inductor uses two higher-order ops of torch for that (``run_and_save_rng_state``,
# ``run_with_rng_state``), which take an op and its arguments. A program has the op itself, next to
# ops that get and set the generator's state. On a GPU there is a third
# (``graphsafe_run_with_rng_state``): the forward and the backward are each passed a generator of
# their own, which advances from call to call. It is not used with ``fallback_random``, nor for a
# graph that draws on several GPUs.


class States(NamedTuple):
    """Ops for the state of a device's generator.

    Attributes:
        get: Returns the state, as a tensor on the host.
        set: Sets the state to such a tensor.
        where: Extra arguments of both.
        layout: The layout of the state.
    """

    get: Any
    set: Any
    where: tuple[torch.device, ...]
    layout: Layout


def states_of(device: torch.device | None) -> States:
    """Return the ops for a device's generator, or the CPU's for a node without a device."""
    from wrapper_ir.runtime import own_ops  # noqa: PLC0415 - registers ops

    if device is None or device.type == "cpu":
        layout = Layout(DType.UINT8, CPU, (own_ops.BYTES,), (1,))
        return States(own_ops.GET_STATE, own_ops.SET_STATE, (), layout)
    layout = Layout(DType.UINT8, CPU, (own_ops.BYTES_OF_DEVICE,), (1,))
    return States(own_ops.GET_STATE_OF, own_ops.SET_STATE_OF, (device,), layout)
