"""Inductor's checks for NaN and infinity (``nan_asserts``), as calls of an op.

Inductor asserts in Python that what a graph is given and what it returns is finite, and what each
Triton kernel was given and has written, in lines of text after its call. A program calls operators
only, so the check is one of torch's registry, and every emitter calls it like any other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import torch

from wrapper_ir.frontends.common.regions import declare
from wrapper_ir.frontends.inductor.compat import inductor_config
from wrapper_ir.frontends.inductor.convert.operators import define
from wrapper_ir.lines.args import BufferArg, BufferValue, StringArg
from wrapper_ir.lines.control import BufferInput
from wrapper_ir.lines.kernels import ExternKernel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wrapper_ir.frontends.inductor.convert.state import Scope
    from wrapper_ir.lines.args import Value
    from wrapper_ir.lines.control import Input

__all__ = ["add_check", "add_checks"]


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
    return ExternKernel(declare(scope.draft, FINITE), (BufferArg(buffer), StringArg(name)))
