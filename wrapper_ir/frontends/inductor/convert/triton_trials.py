"""Trials of Triton kernels on zeros: arguments as a call would pass them, and whether they do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import sympy
import torch

from wrapper_ir.frontends.inductor import compat
from wrapper_ir.frontends.inductor.compat import ValueRanges, ir
from wrapper_ir.frontends.inductor.reach import FROM_MEMORY
from wrapper_ir.frontends.inductor.small_sizes import Index

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from wrapper_ir.frontends.inductor.convert.state import Scope
    from wrapper_ir.frontends.inductor.notes import TritonNote


# Whether a kernel that is tried on zeros stays within its buffers.
#
# Places may depend on what a kernel reads: rows of an embedding, offsets within a pooling window.
# With zeros in all buffers they are known as well as loops are, by interval arithmetic over
# Inductor's loop bodies. Offset 0 of a padded window lies before the image, and row ``ids - 100``
# of a part of an embedding before its first row. There, a kernel's own check would end this
# process's use of the GPU, and without a check it would write to other buffers.

#: How many results a kind of reduction has, if not one.
_RESULTS: Final = {"welford_reduce": 3, "welford_combine": 3, "online_softmax_reduce": 2}

#: Ops of loop bodies that end the process's use of the GPU where something is not as it should.
_CHECKS: Final = ("check_bounds", "device_assert_async")


def depends_on_values(body: Any) -> bool:
    """Return whether one of Inductor's loop bodies computes places from values, or checks them."""
    return bool(body.indirect_vars) or any(map(body.has_op, _CHECKS))


def stays_in_bounds(
    bodies: Sequence[Any], number: Callable[[Any], int], extent: Callable[[str], int | None]
) -> bool:
    """Return whether places that depend on values are within bounds if all buffers hold zeros.

    ``bodies`` are Inductor's loop bodies of a kernel. ``number`` gives the value of a size, and
    ``extent`` how many elements a buffer has, by Inductor's name for it; None if it is local.
    """
    handler = _OnZeros(number, extent)
    with compat.V.set_ops_handler(handler):
        for body in bodies:
            handler.enter(body)
    return handler.is_inside


class _OnZeros(compat.DefaultHandler):
    """Runs loop bodies on intervals of values; loads give zero, or what was stored before."""

    def __init__(self, number: Callable[[Any], int], extent: Callable[[str], int | None]) -> None:
        #: Whether all places so far that depend on values were within bounds.
        self.is_inside = True
        self._number, self._extent = number, extent
        self._ranges: dict[sympy.Symbol, Any] = {}
        self._stored: dict[str, Any] = {}
        self._analysis: Any = compat.ValueRangeAnalysis()

    def enter(self, body: Any) -> None:
        """Run a loop body, over all of its loops."""
        lasts = [max(self._number(size) - 1, 0) for size in body.var_ranges.values()]
        loops = (sympy.Symbol(f"loop{at}", integer=True) for at in range(len(lasts)))
        self._ranges = dict(zip(loops, (ValueRanges(0, n) for n in lasts), strict=True))
        body([*self._ranges])

    def _default(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        try:
            return getattr(self._analysis, name)(*args, **kwargs)
        except (ArithmeticError, AssertionError, AttributeError, TypeError, ValueError):
            return ValueRanges.unknown()

    def where(self, condition: Any, then: Any, other: Any) -> Any:
        """Take the side that a known condition takes."""
        if isinstance(condition, ValueRanges) and condition.is_singleton():
            return then if condition.lower else other
        return self._default("where", (condition, then, other), {})

    def masked(self, mask: Any, body: Callable[[], Any], other: Any) -> Any:
        """Run the body unless nothing passes the mask."""
        if isinstance(mask, ValueRanges) and mask.is_singleton() and not mask.lower:
            return ValueRanges.wrap(other)
        return self._default("where", (ValueRanges.unknown_bool(), body(), other), {})

    def logical_and(self, first: Any, second: Any) -> Any:
        """Combine known conditions; the analysis of Inductor's knows none."""
        return self._default("and_", (first, second), {})

    def logical_or(self, first: Any, second: Any) -> Any:
        """Combine known conditions."""
        return self._default("or_", (first, second), {})

    def load(self, name: str, index: Any) -> Any:
        """Read zero, unless the kernel has computed the value itself."""
        self._touch(name, index)
        return self._stored.get(name, ValueRanges(sympy.S.Zero, sympy.S.Zero))

    def store(self, name: str, index: Any, value: Any, mode: Any = None) -> None:
        """Remember the range of values that a buffer may hold from now on."""
        self._touch(name, index)
        self._stored[name] = value if mode is None else ValueRanges.unknown()

    def store_reduction(self, name: str, index: Any, value: Any) -> None:
        """Remember the range of a reduction's result."""
        self.store(name, index, value)

    def reduction(self, dtype: Any, src_dtype: Any, reduction_type: str, value: Any) -> Any:
        """Return an unknown range for each result of a reduction."""
        unknown, results = ValueRanges.unknown(), _RESULTS.get(reduction_type)
        return unknown if results is None else (unknown,) * results

    def scan(self, dtypes: Any, combine_fn: Any, values: Any) -> Any:
        """Return an unknown range for each result of a scan."""
        return tuple(ValueRanges.unknown() for _ in values)

    def sort(self, dtypes: Any, values: Any, stable: Any, descending: Any) -> Any:
        """Return the ranges of what is sorted."""
        return tuple(values)

    def index_expr(self, index: Any, dtype: Any) -> Any:
        """Return the range of an expression."""
        return self._bound(index)

    def value_expr(self, index: Any, dtype: Any) -> Any:
        """Return the range of an expression (torch 2.15)."""
        return self._bound(index)

    def indirect_indexing(
        self, value: Any, size: Any, check: Any = True, wrap_neg: Any = True  # noqa: FBT002
    ) -> Any:
        """Return a symbol for a value that becomes part of a place."""
        count = self._number(size)
        bounds = ValueRanges.wrap(value)
        if wrap_neg and bounds.lower < 0:
            last = bounds.upper + count if bounds.upper < 0 else sympy.Max(bounds.upper, count - 1)
            bounds = ValueRanges(sympy.Min(bounds.lower + count, 0), last)
        if check and not (bounds.lower >= 0 and bounds.upper < count):
            self.is_inside = False
        symbol = sympy.Symbol(f"tmp{len(self._ranges)}", integer=True)
        self._ranges[symbol] = bounds
        return symbol

    def check_bounds(self, index: Any, size: Any, lower: Any, upper: Any) -> None:
        """Compare an expression with the bounds that the kernel checks."""
        bounds = self._bound(index)
        self.is_inside &= bool(not lower or bounds.lower >= 0)
        self.is_inside &= bool(not upper or bounds.upper < self._number(size))

    def device_assert_async(self, condition: Any, message: str) -> None:
        """Follow an assertion of the user's."""
        is_known = isinstance(condition, ValueRanges) and condition.is_singleton()
        self.is_inside &= bool(is_known and condition.lower)

    def _touch(self, name: str, index: Any) -> None:
        """Compare a place with a buffer's extent, if it depends on values."""
        if not any(compat.symbol_is_type(symbol, FROM_MEMORY) for symbol in index.free_symbols):
            return
        bounds, extent = self._bound(index), self._extent(name)
        if not bounds.lower >= 0 or (extent is not None and not bounds.upper < extent):
            self.is_inside = False

    def _bound(self, index: Any) -> Any:
        index = sympy.sympify(index)
        others = index.free_symbols - self._ranges.keys()
        known = {symbol: sympy.Integer(self._number(symbol)) for symbol in others}
        return compat.bound_sympy(index.xreplace(known), self._ranges)


# Arguments to tune a Triton kernel with: tensors of zeros and numbers, as a call would pass them.
#
# Sizes are those of the hints. A number that a line computes is computed from the hints as well, so
# that all arguments of one call fit together. Nothing relates the numbers that depend on data, so
# what a kernel reads or writes may end beyond a buffer of the expected size (rows ``0 <= i < u0``
# of a buffer that has ``s0`` rows). Each tensor therefore reaches as far as Inductor's index
# expressions do. Where such numbers meet indices that a kernel reads from memory or checks, or that
# nothing tells, as in users' kernels, it cannot be tried without data (``can_be_tried``). Nor can a
# kernel whose indices are out of bounds if what it reads is zero.


def can_be_tried(scope: Scope, note: TritonNote, passed: Iterable[Any]) -> bool:
    """Return whether a kernel stays within what ``example`` makes of what a call passes."""
    depends = any(map(depends_on_values, note.bodies))
    if any(_is_guessed(scope, value) for value in passed):
        indices = [symbol for at in note.touched for symbol in at.index.free_symbols]
        is_told = note.touched and not any(compat.symbol_is_type(s, FROM_MEMORY) for s in indices)
        return bool(is_told and not depends)
    return not depends or _fits(scope, note)


def _fits(scope: Scope, note: TritonNote) -> bool:
    """Return whether all places are within what ``example`` makes, which holds zeros."""
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
    """Return an argument for tuning: zeros in place of a buffer that is passed, or a number."""
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


def _last_index(scope: Scope, at: compat.MemoryDep) -> int:
    """Return the largest index of a loop's accesses at the hints; -1 if it makes none."""
    index = Index(at.index, tuple(at.ranges.items()))
    numbers = {
        symbol: 0 if compat.symbol_is_type(symbol, FROM_MEMORY) else _expected(scope, symbol)
        for symbol in index.symbols() - at.ranges.keys()
    }
    try:
        bounds = index.bounds(numbers)
    except ValueError:  # the hints give a size below 0
        return -1
    return int(bounds.upper) if bounds is not None and bounds.upper.is_Integer else -1
