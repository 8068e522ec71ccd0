"""Functions around those of emitted programs: loops, past autograd, values that go past."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from wrapper_ir.runtime._private import below_autograd

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


Values = tuple[Any, ...]


def run_while(
    condition: Callable[..., Values],
    body: Callable[..., Values],
    carried: Values,
    captured: Values,
) -> Values:
    """Run ``body`` as long as ``condition`` gives true, and return the carried values.

    Args:
        condition: Takes carried and captured values, returns a tuple of one truth value or tensor.
        body: Takes the same, returns the new carried values.
        carried: The first carried values.
        captured: What both take besides.

    The results are tensors of their own even when the body never ran.
    """
    values = carried
    while condition(*values, *captured)[0]:
        values = body(*values, *captured)
    given = [*carried, *captured]
    return tuple(_own(value, given) for value in values)


def run_while_stacked(
    condition: Callable[..., Values],
    body: Callable[..., Values],
    carried: Values,
    captured: Values,
) -> Values:
    """Like :func:`run_while`; returns the values after each round, stacked in a new dimension 0.

    Where there is no round, the first values are the only row.
    """
    rounds: list[Values] = []
    values = carried
    while condition(*values, *captured)[0]:
        values = body(*values, *captured)
        rounds.append(values)
    rounds = rounds or [carried]
    return tuple(_stacked([each[n] for each in rounds]) for n in range(len(carried)))


def _own(value: object, given: Sequence[object]) -> object:
    if isinstance(value, Tensor) and any(value is other for other in given):
        return value.clone()
    return value


def _stacked(values: list[Any]) -> Tensor:
    return torch.stack(values) if isinstance(values[0], Tensor) else torch.tensor(values)


# Calling a program past autograd.


def past_autograd(call: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
    """Return a program's ``call`` such that its library ops skip autograd's part of each call.

    Autograd is off in a program anyway; what is skipped is finding that out, op by op: 0.1 to
    0.2 us of about 1.5. It changes nothing for ops that compute in one kernel and write to buffers
    of the program. It is not for other ops: those that are made of several ops may take other
    ways inside, and autograd would not learn that a tensor of the caller's was written to.
    """

    @functools.wraps(call)
    def run(args: list[Any]) -> Any:  # noqa: ANN401 - what the program returns
        with below_autograd():
            return call(args)

    return run


# Values that go past a program: arguments that it is not given, and results that they are.


def pass_by(
    call: Callable[[list[Any]], Sequence[Any]],
    inputs: Sequence[int],
    results: Mapping[int, int],
    constants: Mapping[int, str],
    values: Mapping[str, Any],
) -> Callable[[list[Any]], tuple[Any, ...]]:
    """Return a function that takes and returns more than the one it calls.

    Args:
        call: Takes a list of arguments, empties it and returns results.
        inputs: Positions of the arguments that it is not given, in rising order.
        results: Position of a result that it does not return -> that of the argument which is it.
        constants: Position of a result that it does not return -> the name of its value.
        values: Values by name, looked up when called: a module gets its own after it has run.
    """

    def call_without(args: list[Any]) -> tuple[Any, ...]:
        passed = {position: args[position] for position in inputs}
        for position in reversed(inputs):
            del args[position]
        found = list(call(args))
        for position in sorted((*results, *constants)):
            is_constant = position in constants
            value = values[constants[position]] if is_constant else passed[results[position]]
            found.insert(position, value)
        return tuple(found)

    return call_without
