"""Operators of our own, for what Inductor writes as calls of Python functions.

A program calls operators only. So such a function is one of torch's registry, and every emitter
calls it like any other.
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
    """Register an op and give its overload; passes over a graph keep its calls.

    Args:
        schema: Its schema without the namespace.
        function: What it does, on any device.
        fake: What it does with tensors without data, where that is something else.
        tags: What torch is to know of it.
    """
    name = schema.partition("(")[0]
    _library.define(schema, tags=tuple(tags))
    _library.impl(name, function, "CompositeExplicitAutograd")
    if fake is not None:
        torch.library.register_fake(f"{_NAMESPACE}::{name}", fake, lib=_library)
    return has_side_effect(getattr(getattr(torch.ops, _NAMESPACE), name).default)


# Inductor's checks for NaN and infinity (``nan_asserts``), as calls of an op.
#
# Inductor asserts in Python that what a graph is given and what it returns is finite, and what each
# Triton kernel was given and has written, in lines of text after its call. A program calls
# operators only, so the check is one of torch's registry, and every emitter calls it like any
# other.


def _check(value: torch.Tensor, name: str) -> None:
    """Raise what Inductor's assertion does unless every element is finite."""
    for found, what in ((torch.isnan, "NaN"), (torch.isinf, "infinity")):
        if bool(found(value).any()):
            raise AssertionError(f"{name} has {what} (torch._inductor.config.nan_asserts)")


FINITE: Final = define(
    "assert_finite(Tensor value, str name) -> ()", _check, fake=lambda value, name: None
)


def add_checks(scope: Scope, start: int, inputs: Sequence[Input], results: Sequence[Value]) -> None:
    """Check inputs before the line ``start`` and results after the last one, where asked for."""
    if not inductor_config.nan_asserts:
        return
    given = [
        (each.name, f"input '{each.name}'") for each in inputs if isinstance(each, BufferInput)
    ]
    made = {each.buffer: None for each in results if isinstance(each, BufferValue)}
    scope.body[start:start] = [_line(scope, *each) for each in given]
    scope.body += [_line(scope, name, f"result '{name}'") for name in made]


def add_check(scope: Scope, text: str, kernel: str, passed: Sequence[str]) -> bool:
    """Check a buffer after the call of a kernel, if that is what a line of text does.

    Args:
        scope: Where the check goes.
        text: Inductor's; it has one such line for NaN, and one for infinity.
        kernel: The kernel that was called last.
        passed: Inductor's names of what it was called with.

    Returns:
        Whether the line is such a check.
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


# Inductor's hooks for intermediate values (``generate_intermediate_hooks``), as calls of an op.
#
# Inductor writes a call of a Python function behind what it wants to show. A program calls
# operators only, so the function is one of torch's registry here, and every emitter calls it like
# any other. The hooks themselves stay where Inductor has them, and are asked for at each call.


def _show(value: torch.Tensor, name: str) -> None:
    run_intermediate_hooks(name, value)  # type: ignore[no-untyped-call]


#: Shows a tensor to the hooks, under the name of the node of the graph that it comes from.
HOOK: Final = define("intermediate_hook(Tensor value, str name) -> ()", _show)


def hooked_name(node: Any) -> str:
    """Return under which name the hooks see what an IR node computes; empty when they do not.

    Inductor knows the origin of single tensors only, not of several results of one call.
    """
    if not inductor_config.generate_intermediate_hooks or not isinstance(node.layout, ir.Layout):
        return ""
    origin = node.get_origin_node()
    return str(origin.name) if origin is not None else ""


# ``torch._higher_order_ops.print``, which prints while a program runs, as calls of an op.
#
# Inductor writes a call of Python's ``print``. A program calls operators only, so there is one of
# torch's registry that prints, and every emitter calls it like any other. What is printed comes in
# two lists, for an op takes tensors and numbers apart; a third one tells how they were given.


_TENSOR, _NUMBER = "tensor", "number"


def _print(
    text: str, tensors: Sequence[torch.Tensor], numbers: Sequence[float], given: Sequence[str]
) -> None:
    """Print a text with values in the places that ``str.format`` has for them.

    Args:
        text: With places in curly brackets.
        tensors: The values that are tensors, in order.
        numbers: Those that are numbers.
        given: For each value what it is, ``tensor`` or ``number``, and with an equals sign before
            it the name that it was given by.
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
    """Return the arguments of the op for an IR node that prints.

    Args:
        node: The node.

    Raises:
        UnsupportedLineError: A value is neither a tensor nor a number.
    """
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


# Random ops that are run again with the state of the generator that they had the first time.
#
# What is checkpointed in training calls random ops in the forward and once more in the backward,
# and has to draw the same numbers. For that Inductor calls two higher-order ops of torch
# (``run_and_save_rng_state``, ``run_with_rng_state``), which take an op and its arguments. A
# program has the op itself, and beside it ops that give and set the state of the generator. On a
# GPU there is another (``graphsafe_run_with_rng_state``), in the forward and in the backward: each
# is given a generator for it, which moves on from call to call. It is not used with
# ``fallback_random``, nor where a graph draws on several GPUs.


_BYTES: Final = torch.get_rng_state().numel()

#: Gives the state of the CPU's generator. Of two calls neither is superfluous: something may have
#: been drawn in between.
_GET_STATE: Final = define(
    "random_state() -> Tensor",
    torch.get_rng_state,
    fake=lambda: torch.empty(_BYTES, dtype=torch.uint8),
    tags=(torch.Tag.nondeterministic_seeded,),
)
#: Sets it.
_SET_STATE: Final = define(
    "set_random_state(Tensor state) -> ()", torch.set_rng_state, fake=lambda state: None
)

#: A seed and an offset.
_BYTES_OF_DEVICE: Final = 16


def _get_state_of(device: torch.device) -> torch.Tensor:
    state: torch.Tensor = torch.get_device_module(device).get_rng_state(device)
    return state


def _set_state_of(state: torch.Tensor, device: torch.device) -> None:
    torch.get_device_module(device).set_rng_state(state.cpu(), device)


#: The same for the generator of another device. They have no form without Python: only training
#: comes to them.
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
        get: Gives it, as a tensor on the host.
        set: Sets it to such a tensor.
        where: What both are given besides.
        layout: How it is kept.
    """

    get: Any
    set: Any
    where: tuple[torch.device, ...]
    layout: Layout


def states_of(device: torch.device | None) -> States:
    """Return the ops for the generator of a device; of the CPU where a node has none."""
    if device is None or device.type == "cpu":
        return States(_GET_STATE, _SET_STATE, (), Layout(DType.UINT8, CPU, (_BYTES,), (1,)))
    layout = Layout(DType.UINT8, CPU, (_BYTES_OF_DEVICE,), (1,))
    return States(_GET_STATE_OF, _SET_STATE_OF, (device,), layout)


def _exchange(state: torch.Generator) -> torch.Generator:
    """Have the generator of a device go on from another's state; return the state that it had.

    Both are the states themselves and no copies: what is drawn moves the one that is in use on.

    Args:
        state: A generator of the device, such as those that torch keeps for a graph.
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
