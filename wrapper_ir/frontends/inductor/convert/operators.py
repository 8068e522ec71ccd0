"""Operators of our own, in place of Python functions that Inductor's wrapper calls.

A program calls only operators. So each such function is registered as one with torch, and every
emitter calls it like any other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import torch
from torch.fx.node import has_side_effect

from wrapper_ir.frontends.common.ops import call_of
from wrapper_ir.frontends.inductor.compat import inductor_config, ir, run_intermediate_hooks
from wrapper_ir.frontends.inductor.convert.arguments import is_tensor
from wrapper_ir.frontends.inductor.errors import UnsupportedLineError
from wrapper_ir.lines.args import BufferArg, BufferValue, StringArg
from wrapper_ir.lines.control import BufferInput
from wrapper_ir.lines.layout import CPU, DType, Layout

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wrapper_ir.frontends.inductor.convert.state import Scope
    from wrapper_ir.lines.args import Value
    from wrapper_ir.lines.control import Input
    from wrapper_ir.lines.kernels import ExternKernel

_NAMESPACE: Final = "wrapper_ir_inductor"
_library: Final[Any] = torch.library.Library(_NAMESPACE, "DEF")  # type: ignore[no-untyped-call]


def define(
    schema: str,
    function: Callable[..., Any],
    *,
    fake: Callable[..., Any] | None = None,
    tags: Sequence[torch.Tag] = (),
) -> Any:
    """Register an op and return its overload; graph passes keep calls of it.

    Args:
        schema: The schema without the namespace.
        function: The implementation, for all devices.
        fake: The implementation for fake tensors, if it differs.
        tags: Torch's tags for the op.
    """
    name = schema.partition("(")[0]
    _library.define(schema, tags=tuple(tags))
    _library.impl(name, function, "CompositeExplicitAutograd")
    if fake is not None:
        torch.library.register_fake(f"{_NAMESPACE}::{name}", fake, lib=_library)
    return has_side_effect(getattr(getattr(torch.ops, _NAMESPACE), name).default)


# Inductor's checks for NaN and infinity (``nan_asserts``).
#
# Inductor asserts in Python that a graph's inputs and results are finite, and also, in text after
# its call, each Triton kernel's arguments.


def _check(value: torch.Tensor, name: str) -> None:
    """Raise Inductor's AssertionError unless every element is finite."""
    for test, what in ((torch.isnan, "NaN"), (torch.isinf, "infinity")):
        if bool(test(value).any()):
            raise AssertionError(f"{name} has {what} (torch._inductor.config.nan_asserts)")


FINITE: Final = define(
    "assert_finite(Tensor value, str name) -> ()", _check, fake=lambda value, name: None
)


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
    return call_of(scope.draft, FINITE, (BufferArg(buffer), StringArg(name)))


# Inductor's hooks for intermediate values (``generate_intermediate_hooks``).
#
# Inductor calls a Python function after each node that it shows. The hooks stay in Inductor's list,
# which is read at each call.


def _show(value: torch.Tensor, name: str) -> None:
    run_intermediate_hooks(name, value)  # type: ignore[no-untyped-call]


#: Shows a tensor to the hooks, under the name of the fx node that it comes from.
HOOK: Final = define("intermediate_hook(Tensor value, str name) -> ()", _show)


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
# Inductor calls Python's ``print``. An op takes tensors and numbers separately, so the values are
# passed in two lists, and a third list says how to put them back together.


_TENSOR, _NUMBER = "tensor", "number"


def _print(
    text: str, tensors: Sequence[torch.Tensor], numbers: Sequence[float], given: Sequence[str]
) -> None:
    """Print a format string with the given values.

    Args:
        text: A format string for ``str.format``.
        tensors: The tensor values, in order.
        numbers: The numeric values, in order.
        given: The kind of each value, ``tensor`` or ``number``; for a keyword argument, its name
            and an equals sign come first.
    """
    values = {_TENSOR: iter(tensors), _NUMBER: iter(numbers)}
    args, kwargs = [], {}
    for each in given:
        name, _, kind = each.rpartition("=")
        value = next(values[kind])
        if name:
            kwargs[name] = value
        else:
            args.append(value)
    print(text.format(*args, **kwargs))  # noqa: T201 - it is what the model asks for


PRINT: Final = define(
    "print(str text, Tensor[] tensors, Scalar[] numbers, str[] given) -> ()", _print
)


def print_arguments(node: Any) -> tuple[Any, ...]:
    """Return the op's arguments for an IR node that prints tensors and numbers."""
    (text, *args), kwargs = node.unflatten_args(node.inputs, node.constant_args)
    tensors: list[Any] = []
    numbers: list[Any] = []
    given: list[str] = []
    named = {**node.kwargs, **kwargs}
    for name, value in [*(("", value) for value in args), *named.items()]:
        kind = _TENSOR if is_tensor(value) else _NUMBER
        if isinstance(value, (str, list, tuple, dict, type(None))):
            raise UnsupportedLineError(
                kind="call of print",
                text=repr(text),
                why=f"it prints a value of type {type(value).__name__}",
            )
        (tensors if kind == _TENSOR else numbers).append(value)
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


_BYTES: Final = torch.get_rng_state().numel()

#: Returns the state of the CPU's generator. No call is redundant: something may have been drawn
#: since the previous one.
_GET_STATE: Final = define(
    "random_state() -> Tensor",
    torch.get_rng_state,
    fake=lambda: torch.empty(_BYTES, dtype=torch.uint8),
    tags=(torch.Tag.nondeterministic_seeded,),
)
#: Sets the state of the CPU's generator.
_SET_STATE: Final = define(
    "set_random_state(Tensor state) -> ()", torch.set_rng_state, fake=lambda state: None
)

#: Size of the state of another device's generator: a seed and an offset.
_BYTES_OF_DEVICE: Final = 16


def _get_state_of(device: torch.device) -> torch.Tensor:
    state: torch.Tensor = torch.get_device_module(device).get_rng_state(device)
    return state


def _set_state_of(state: torch.Tensor, device: torch.device) -> None:
    torch.get_device_module(device).set_rng_state(state.cpu(), device)


#: The same for another device's generator. These have no form without Python: only training uses
#: them.
_GET_STATE_OF: Final = define(
    "random_state_of(Device device) -> Tensor",
    _get_state_of,
    fake=lambda device: torch.empty(_BYTES_OF_DEVICE, dtype=torch.uint8),
    tags=(torch.Tag.nondeterministic_seeded,),
)
_SET_STATE_OF: Final = define(
    "set_random_state_of(Tensor state, Device device) -> ()",
    _set_state_of,
    fake=lambda state, device: None,
)


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
    if device is None or device.type == "cpu":
        return States(_GET_STATE, _SET_STATE, (), Layout(DType.UINT8, CPU, (_BYTES,), (1,)))
    layout = Layout(DType.UINT8, CPU, (_BYTES_OF_DEVICE,), (1,))
    return States(_GET_STATE_OF, _SET_STATE_OF, (device,), layout)


def _exchange(state: torch.Generator) -> torch.Generator:
    """Make a device's generator continue from another one's state; return the state it had.

    Both are the states themselves, not copies: drawing advances the one in use. The generator
    passed may be one of those that torch keeps for a graph.
    """
    module = torch.get_device_module(state.device)
    generator: torch.Generator = module.default_generators[state.device.index]
    before = generator.graphsafe_get_state()
    generator.graphsafe_set_state(state)
    return before


#: Exchanges the state of a GPU's generator.
EXCHANGE_STATE: Final = define(
    "exchange_random_state(Generator state) -> Generator", _exchange, fake=lambda state: state
)
