"""Checks of what a graph is given and of what library ops return: layouts and addresses."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final

from wrapper_ir.frontends.inductor.convert.origins import op_called
from wrapper_ir.lines.symbols import AssertLayout

if TYPE_CHECKING:
    from wrapper_ir.frontends.inductor.convert.state import Scope

__all__ = ["assert_alignment", "assert_layout"]

_INPUT: Final = "input"


def assert_layout(scope: Scope, name: str, op_name: str, writer: Any) -> None:
    """Check the layout of an input or of an op's result.

    Args:
        scope: Where the check goes.
        name: Inductor's name of the buffer.
        op_name: Inductor's name of the op, ``input`` for an input.
        writer: The node whose result it is.
    """
    check = _check(scope, name, op_name, writer)
    if _last_check(scope, check) is None:
        scope.emit(check)


def assert_alignment(scope: Scope, name: str, bytes_: int, op_name: str, writer: Any) -> None:
    """Check an address too, in the same line as the layout where that comes right before.

    Args:
        scope: Where the check goes.
        name: Inductor's name of the buffer.
        bytes_: What the address has to be a multiple of.
        op_name: Inductor's name of the op, ``input`` for an input.
        writer: The node whose result it is.
    """
    check = _check(scope, name, op_name, writer)
    last = _last_check(scope, check)
    if last is not None:
        scope.body.remove(last)
    scope.emit(dataclasses.replace(check, alignment=bytes_))


def _check(scope: Scope, name: str, op_name: str, writer: Any) -> AssertLayout:
    subject = op_called(op_name, writer)
    origin = scope.origin(writer) if subject != _INPUT else None
    return AssertLayout(scope.resolve(name), subject, origin=origin)


def _last_check(scope: Scope, check: AssertLayout) -> AssertLayout | None:
    """Return the check of the same buffer among those that the body ends with."""
    for line in reversed(scope.body):
        if not isinstance(line, AssertLayout):
            return None
        if line.buffer == check.buffer:
            return line
    return None
