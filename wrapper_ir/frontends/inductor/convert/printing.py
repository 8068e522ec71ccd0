"""``torch._higher_order_ops.print``, which prints while a program runs, as calls of an op.

Inductor writes a call of Python's ``print``. A program calls operators only, so there is one of
torch's registry that prints, and every emitter calls it like any other. What is printed comes in
two lists, for an op takes tensors and numbers apart; a third one tells how they were given.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import torch

from wrapper_ir.frontends.inductor.convert.arguments import is_tensor
from wrapper_ir.frontends.inductor.convert.operators import define
from wrapper_ir.frontends.inductor.errors import UnsupportedLineError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["PRINT", "print_arguments", "prints"]

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

_HOP: Final = torch.ops.higher_order.print


def prints(node: Any) -> bool:
    """Return whether an IR node prints."""
    return getattr(node, "op_overload", None) is _HOP


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
