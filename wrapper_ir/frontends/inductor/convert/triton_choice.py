"""Calls of one of several kernels that compute the same (Inductor's ``triton.multi_kernel``).

Inductor decides in the first call which one is the fastest, or for matrices of sizes unknown in
each, which one was tuned for the nearest. A program is to be the same each time, so it is decided
now, and only the kernel that was chosen is in it.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from wrapper_ir.frontends.inductor.compat import ir
from wrapper_ir.frontends.inductor.convert.triton import (
    convert_triton_call,
    example,
    passed_to,
    size_hint,
)
from wrapper_ir.frontends.inductor.triton_choices import fastest, nearest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wrapper_ir.frontends.inductor.convert.state import Scope
    from wrapper_ir.frontends.inductor.notes import AlternativesNote

__all__ = ["convert_choice"]


def convert_choice(scope: Scope, line: Any, note: AlternativesNote) -> None:
    """Convert a call of several kernels to a call of the one that is chosen.

    Raises:
        UnsupportedLineError: That call has no typed form.
    """
    passed = passed_to(line)
    if note.shapes is None:
        number = fastest(
            note,
            [scope.shared.tuners.get(kernel) for kernel in note.kernels],
            line.device,
            lambda: [example(scope, note.kernels[0], value) for value in passed],
        )
    else:
        number = nearest(note, list(_shapes(scope, passed)))
    shared, own = note.taken_by(number, len(passed))
    call = copy.copy(line)
    call.kernel_name = note.kernels[number].name
    call.call_args = (*line.call_args[shared], *line.call_args[own])
    convert_triton_call(scope, call, note.kernels[number])


def _shapes(scope: Scope, passed: list[Any]) -> Iterator[tuple[int, ...]]:
    """Yield what shapes to expect of the tensors that are passed."""
    for value in passed:
        name = value if isinstance(value, str) else None
        if isinstance(value, ir.IRNode):
            name = scope.reference(value)
        if name is not None:
            layout = scope.layout(scope.resolve(name))
            yield tuple(int(size_hint(scope, size)) for size in layout.size)
