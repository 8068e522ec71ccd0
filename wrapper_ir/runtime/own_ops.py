"""Operators of our own, in place of Python functions that Inductor's wrapper calls.

A program calls only operators. So each such function is registered as one with torch, and every
emitter calls it like any other. Emitted Python that calls one imports this module, and so does what
loads a C++ program that calls one: registering takes torch a while, and few programs need it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import torch
from torch.fx.node import has_side_effect

from wrapper_ir.runtime._private import run_intermediate_hooks

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_NAMESPACE: Final = "wrapper_ir_inductor"
_library: Final[Any] = torch.library.Library(_NAMESPACE, "DEF")  # type: ignore[no-untyped-call]


def define(
    schema: str,
    function: Callable[..., Any],
    *,
    fake: Callable[..., Any] | None = None,
    tags: Sequence[torch.Tag] = (),
) -> Any:  # noqa: ANN401 - an overload, which has no type
    """Register an op for all devices and return its overload; graph passes keep calls of it.

    ``schema`` has no namespace; ``fake`` is the implementation for fake tensors, if it differs.
    """
    name = schema.partition("(")[0]
    _library.define(schema, tags=tuple(tags))
    _library.impl(name, function, "CompositeExplicitAutograd")
    if fake is not None:
        torch.library.register_fake(f"{_NAMESPACE}::{name}", fake, lib=_library)
    return has_side_effect(getattr(getattr(torch.ops, _NAMESPACE), name).default)


# Inductor's checks for NaN and infinity (``nan_asserts``).


def _check(value: torch.Tensor, name: str) -> None:
    """Raise Inductor's AssertionError unless every element is finite."""
    for test, what in ((torch.isnan, "NaN"), (torch.isinf, "infinity")):
        if bool(test(value).any()):
            raise AssertionError(f"{name} has {what} (torch._inductor.config.nan_asserts)")


FINITE: Final = define(
    "assert_finite(Tensor value, str name) -> ()", _check, fake=lambda value, name: None
)


# Inductor's hooks for intermediate values (``generate_intermediate_hooks``), which stay in its list
# and are read at each call.


def _show(value: torch.Tensor, name: str) -> None:
    run_intermediate_hooks(name, value)


#: Shows a tensor to the hooks, under the name of the fx node that it comes from.
HOOK: Final = define("intermediate_hook(Tensor value, str name) -> ()", _show)


# ``torch._higher_order_ops.print``, which prints while a program runs. An op takes tensors and
# numbers separately, so the values are passed in two lists, and a third list says how to put them
# together.


TENSOR, NUMBER = "tensor", "number"


def _print(
    text: str, tensors: Sequence[torch.Tensor], numbers: Sequence[float], given: Sequence[str]
) -> None:
    """Print a format string of ``str.format`` with tensors and numbers in the order ``given``.

    Each entry of that is ``tensor`` or ``number``; for a keyword argument, its name and an equals
    sign come first.
    """
    values = {TENSOR: iter(tensors), NUMBER: iter(numbers)}
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


# State of random generators, for random ops that are rerun in the state of their first run.


BYTES: Final = torch.get_rng_state().numel()

#: Returns the state of the CPU's generator. No call is redundant: something may have been drawn
#: since the previous one.
GET_STATE: Final = define(
    "random_state() -> Tensor",
    torch.get_rng_state,
    fake=lambda: torch.empty(BYTES, dtype=torch.uint8),
    tags=(torch.Tag.nondeterministic_seeded,),
)
#: Sets the state of the CPU's generator.
SET_STATE: Final = define(
    "set_random_state(Tensor state) -> ()", torch.set_rng_state, fake=lambda state: None
)

#: Size of the state of another device's generator: a seed and an offset.
BYTES_OF_DEVICE: Final = 16


def _get_state_of(device: torch.device) -> torch.Tensor:
    state: torch.Tensor = torch.get_device_module(device).get_rng_state(device)
    return state


def _set_state_of(state: torch.Tensor, device: torch.device) -> None:
    torch.get_device_module(device).set_rng_state(state.cpu(), device)


#: The same for another device's generator. These have no form without Python: only training uses
#: them.
GET_STATE_OF: Final = define(
    "random_state_of(Device device) -> Tensor",
    _get_state_of,
    fake=lambda device: torch.empty(BYTES_OF_DEVICE, dtype=torch.uint8),
    tags=(torch.Tag.nondeterministic_seeded,),
)
SET_STATE_OF: Final = define(
    "set_random_state_of(Tensor state, Device device) -> ()",
    _set_state_of,
    fake=lambda state, device: None,
)


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
