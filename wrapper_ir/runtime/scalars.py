"""Numbers in emitted programs: checks of scalar inputs, and the functions that expressions call."""

from __future__ import annotations

from math import ceil, cos, exp, floor, log, log2, sin, sqrt, tanh

from wrapper_ir.runtime.checks import check_symbol
from wrapper_ir.runtime.errors import InputLayoutError

__all__ = ["ceil", "check_number", "cos", "exp", "floor", "log", "log2", "sin", "sqrt", "tanh"]


def check_number(
    name: str,
    value: object,
    kind: type,
    low: int | None = None,
    high: int | None = None,
    *,
    optional: bool = False,
) -> None:
    """Return if a scalar input is a number of the right type, within its range.

    Args:
        name: What errors call it.
        value: The input.
        kind: ``int``, ``float`` (an int will do), ``bool``, or ``type(None)`` for no number.
        low: The least it may be.
        high: The most it may be.
        optional: Whether None will do, since nothing depends on the value.

    Raises:
        InputLayoutError: It is something else.
        SymbolError: It is out of range.
    """
    if value is None and optional:
        return
    given = type(value)
    if given is not kind and not (kind is float and given is int):
        raise InputLayoutError(
            name=name,
            difference="type",
            expected="None" if kind is type(None) else f"a number of type {kind.__name__}",
            got=f"a value of type {given.__name__}",
            hint="pass inputs in the order and form in which the program was made",
        )
    if isinstance(value, int) and (low is not None or high is not None):
        check_symbol(name, value, low, high)
