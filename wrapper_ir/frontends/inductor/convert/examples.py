"""Arguments to tune a Triton kernel with: tensors of zeros and numbers, as a call would pass them.

Sizes are those of the hints. A number that a line computes is computed from the hints as well, so
that all arguments of one call fit together. Nothing relates the numbers that depend on data, so
what a kernel reads or writes may end beyond a buffer of the expected size (rows ``0 <= i < u0`` of
a buffer that has ``s0`` rows). Each tensor therefore reaches as far as Inductor's index
expressions do. Where such numbers meet indices that a kernel reads from memory or checks, or that
nothing tells, as in users' kernels, it cannot be tried without data (:func:`can_be_tried`). Nor
can a kernel whose indices are out of bounds if what it reads is zero.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from wrapper_ir.frontends.inductor.compat import MemoryDep, ir, symbol_is_type
from wrapper_ir.frontends.inductor.convert.trial_bounds import (
    FROM_MEMORY,
    depends_on_values,
    stays_in_bounds,
)
from wrapper_ir.frontends.inductor.indices import Index

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wrapper_ir.frontends.inductor.convert.state import Scope
    from wrapper_ir.frontends.inductor.notes import TritonNote


def can_be_tried(scope: Scope, note: TritonNote, passed: Iterable[Any]) -> bool:
    """Return whether a kernel stays within what :func:`example` makes for a call of it.

    Args:
        scope: Where the kernel is called.
        note: The kernel.
        passed: What Inductor's call passes.
    """
    depends = any(map(depends_on_values, note.bodies))
    if any(_is_guessed(scope, value) for value in passed):
        indices = [symbol for at in note.touched for symbol in at.index.free_symbols]
        is_told = note.touched and not any(symbol_is_type(s, FROM_MEMORY) for s in indices)
        return bool(is_told and not depends)
    return not depends or _fits(scope, note)


def _fits(scope: Scope, note: TritonNote) -> bool:
    """Return whether all places are within what :func:`example` makes, which holds zeros."""
    passed = {buffer.buffer for buffer in note.buffers.values()}

    def extent(name: str) -> int | None:
        name = note.real.get(name, name)
        return _count(scope, note, scope.resolve(name), name) if name in passed else None

    def number(size: Any) -> int:
        return size if isinstance(size, int) else _expected(scope, size)

    return stays_in_bounds(note.bodies, number, extent)


def _expected(scope: Scope, size: Any) -> int:
    """Return the number that Inductor's expression of a size has at the hints."""
    return int(scope.draft.expected(scope.scalar(size)))


def _is_guessed(scope: Scope, value: Any) -> bool:
    if isinstance(value, (bool, int, float)):
        return False
    if isinstance(value, (str, ir.IRNode)):
        name = scope.resolve(value) if isinstance(value, str) else scope.reference(value)
        return scope.draft.is_guess(scope.layout(name).extent)
    return scope.draft.is_guess(scope.scalar(getattr(value, "inner_expr", value)))


def example(scope: Scope, note: TritonNote, value: Any) -> Any:
    """Return an argument for tuning: zeros in place of a buffer, or a number.

    Args:
        scope: Where the kernel is called.
        note: The kernel.
        value: What Inductor's call passes.
    """
    if isinstance(value, ir.IRNode):
        name, dtype, passed = scope.reference(value), value.get_dtype(), value.get_name()
    elif isinstance(value, str):
        name, passed = scope.resolve(value), value
        dtype = next(b.dtype for b in note.buffers.values() if b.buffer == value)
    elif isinstance(value, (bool, int, float)):
        return value
    else:
        return scope.draft.expected(scope.scalar(getattr(value, "inner_expr", value)))
    layout = scope.layout(name)
    count = _count(scope, note, name, passed)
    device = torch.device(str(layout.device))
    zeros = torch.zeros(count * layout.dtype.itemsize, dtype=torch.uint8, device=device)
    return zeros.view(dtype)


def _count(scope: Scope, note: TritonNote, name: str, buffer: str) -> int:
    """Return how many elements an example of a buffer has."""
    extent = int(scope.draft.expected(scope.layout(name).extent))
    return max(extent, _reach(scope, note, buffer))


def _reach(scope: Scope, note: TritonNote, buffer: str) -> int:
    """Return how many elements of a buffer a kernel may touch, counted from its start.

    Indices that are read from memory are left out: in the example that memory holds zeros.
    """
    indices = (_last_index(scope, at) for at in note.touched if at.name == buffer)
    return max(indices, default=-1) + 1


def _last_index(scope: Scope, at: MemoryDep) -> int:
    """Return the largest index of a loop's accesses at the hints; -1 if it makes none."""
    index = Index(at.index, tuple(at.ranges.items()))
    numbers = {
        symbol: 0 if symbol_is_type(symbol, FROM_MEMORY) else _expected(scope, symbol)
        for symbol in index.symbols() - at.ranges.keys()
    }
    try:
        bounds = index.bounds(numbers)
    except ValueError:  # the hints give a size below 0
        return -1
    return int(bounds.upper) if bounds is not None and bounds.upper.is_Integer else -1
