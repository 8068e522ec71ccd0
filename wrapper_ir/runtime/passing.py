"""Values that go past a program: arguments that it is not given, and results that they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["pass_by"]


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
