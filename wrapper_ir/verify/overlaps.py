"""Calls of library ops whose arguments overlap.

The result of an op that reads ``%x`` while it writes ``%x`` depends on the order of its loops. A
schema declares where that is intended: arguments of one alias set, such as ``Tensor(a)`` and
``Tensor(a!)``, may share memory, others must not. Torch's own schemas do not declare it, so for
``aten`` we apply the checks that torch does at run time. Elementwise ops may write exactly what
they read (``add_(x, x)``) but not a part of it. Matrix products allow neither. Torch does not check
views with gaps, and neither do we. Other ops that come with torch are exempt: a collective may
gather into a part of its input.

Overlaps of two written arguments are not checked, nor those of kernels: a fused kernel is generated
for its arguments.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from wrapper_ir.analysis.proof import Facts, end_of, sizes_of
from wrapper_ir.lines.args import buffers_in
from wrapper_ir.lines.expr import dim
from wrapper_ir.verify import rules
from wrapper_ir.verify.calls import shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wrapper_ir.lines import Arg, Dim, ExternKernel, Layout, SchemaArg
    from wrapper_ir.verify.lifetimes import Lifetimes
    from wrapper_ir.verify.state import Buffer, State

#: Namespaces of ops that come with torch, whose schemas do not declare allowed overlaps.
OF_TORCH: Final = frozenset("""
    _c10d_functional _c10d_functional_autograd _dtensor _inductor_test _quantized _test aten c10d
    c10d_functional debugprims fsdp higher_order inductor mkl mkldnn onednn prepacked prim prims
    profiler quantized rngprims sparse streams symm_mem torch_attn wrapper_ir xpu
    """.split())  # noqa: SIM905 - one name a line would take the page

#: Torch ops that still read these arguments while they write.
_READ_TO_THE_END: Final = {
    "aten::mm.out": ("self", "mat2"),
    "aten::bmm.out": ("self", "mat2"),
    "aten::addmm.out": ("mat1", "mat2"),
    "aten::addmm_": ("mat1", "mat2"),
    "aten::baddbmm.out": ("batch1", "batch2"),
    "aten::baddbmm_": ("batch1", "batch2"),
}

#: Torch ops that use the layout or storage of an argument, but no elements.
_WITHOUT_ELEMENTS: Final = ("aten::set_", "aten::resize_as_")

_MOST_STEPS: Final = 4096
"""The search for a shared byte gives up after this many steps and reports nothing."""


class _Passed(NamedTuple):
    """A buffer that is passed to an op, and the declaration of its argument."""

    declared: SchemaArg
    buffer: Buffer
    layout: Layout


class Overlaps:
    """Checks of overlaps among arguments."""

    def __init__(self, state: State, lifetimes: Lifetimes) -> None:
        self.state = state
        self.lifetimes = lifetimes

    def check(self, line: ExternKernel, bound: Sequence[tuple[SchemaArg, Arg]]) -> None:
        """Check one call. ``bound`` pairs arguments with their declarations."""
        if not any(declared.type.writes for declared, _ in bound):
            return
        namespace = line.op.partition("::")[0]
        if namespace in OF_TORCH and namespace != "aten":
            return
        passed = list(self._passed(bound))
        read = [each for each in passed if not each.declared.type.writes]
        for written in passed:
            if not written.declared.type.writes:
                continue
            other = next((each for each in read if self._is_fault(line, written, each)), None)
            if other is not None:
                fault = partial(self.state.report, rules.SHARED_ARGUMENT, name=shown(line.op))
                fault = partial(fault, written=written.buffer.name, read=other.buffer.name)
                fault(argument=written.declared.name, other=other.declared.name)

    def _passed(self, bound: Sequence[tuple[SchemaArg, Arg]]) -> Iterator[_Passed]:
        """Yield the buffers whose storage is known."""
        for declared, arg in bound:
            for each in buffers_in([arg]):
                buffer = self.lifetimes.buffers.get(each.buffer)
                if buffer and buffer.layout and buffer.is_certain and len(buffer.storages) == 1:
                    yield _Passed(declared, buffer, buffer.layout)

    def _is_fault(self, line: ExternKernel, written: _Passed, read: _Passed) -> bool:
        """Return whether the op must not write one argument while it reads the other."""
        if written.buffer.storages != read.buffer.storages or _may_be_one(written, read):
            return False
        if line.op.startswith("aten::"):
            name = read.declared.name
            return _is_refused_by_torch(line.op, name, written.layout, read.layout)
        return share_a_byte(written.layout, read.layout, self.state.facts)


def _may_be_one(a: _Passed, b: _Passed) -> bool:
    """Return whether the schema has both arguments in one alias set."""
    ours, theirs = a.declared.type.alias_sets, b.declared.type.alias_sets
    return bool(ours & theirs) or "*" in ours or "*" in theirs


def _is_refused_by_torch(op: str, read: str, a: Layout, b: Layout) -> bool:
    """Return whether torch refuses an op that writes ``a`` while it reads ``b``."""
    if op.partition(".")[0] in _WITHOUT_ELEMENTS or not (a.is_static and b.is_static):
        return False
    if 0 in (*a.size, *b.size) or not (a.is_dense and b.is_dense):
        return False
    if _places(a) == _places(b) and a.offset == b.offset and a.dtype is b.dtype:
        return read in _READ_TO_THE_END.get(op, ())
    return max(_start(a), _start(b)) < min(end_of(a), end_of(b))


def share_a_byte(a: Layout, b: Layout, facts: Facts) -> bool:
    """Return whether two views of a storage provably share a byte, unless one is empty."""
    if 0 in (*a.size, *b.size):
        return False
    if (a.dtype, a.size, a.stride, a.offset) == (b.dtype, b.size, b.stride, b.offset):
        return True
    if type(a.offset) is int and type(b.offset) is int and _meet(a, b):
        return True
    if (a.is_static and b.is_static) or not (a.is_contiguous and b.is_contiguous):
        return False
    sizes = sizes_of(a) | sizes_of(b)
    return facts.exceeds(end_of(a), _start(b), sizes) and facts.exceeds(end_of(b), _start(a), sizes)


def _start(layout: Layout) -> Dim:
    return dim(layout.offset * layout.dtype.itemsize)


def _places(layout: Layout) -> list[tuple[Dim, Dim]]:
    """Return sizes and strides without dimensions of size one."""
    pairs = zip(layout.size, layout.stride, strict=True)
    return [(size, stride) for size, stride in pairs if size != 1]


def _meet(a: Layout, b: Layout) -> bool:
    """Return whether elements of both share a byte, as far as constant sizes and strides show.

    For a symbolic dimension only index 0 is considered. With the indices of ``b`` counted from
    their ends, the question is whether a number is a sum of steps with bounded multiplicities.
    """
    terms: dict[int, int] = {}
    goal = _start(b) - _start(a) + b.dtype.itemsize - 1
    for layout, is_second in ((a, False), (b, True)):
        size = layout.dtype.itemsize
        known = [(1, size)]
        for count, stride in zip(layout.size, layout.stride, strict=True):
            if type(count) is int and type(stride) is int:
                known.append((stride * size, count))
                goal += is_second * stride * size * (count - 1)
        for step, count in known:
            if step:
                terms[step] = terms.get(step, 0) + count - 1
    return _Search(sorted(terms.items(), reverse=True)).reaches(goal)


class _Search:
    """A branch-and-bound search for a number as a sum of multiples, largest steps first."""

    def __init__(self, terms: list[tuple[int, int]]) -> None:
        self.terms = terms
        self.steps = _MOST_STEPS
        #: The largest sum of the terms from each position on.
        self.rest = [0]
        for step, most in reversed(terms):
            self.rest.insert(0, self.rest[0] + step * most)

    def reaches(self, goal: int, at: int = 0) -> bool:
        if not 0 <= goal <= self.rest[at]:
            return False
        if at == len(self.terms):
            return True
        step, most = self.terms[at]
        least = max(0, -((self.rest[at + 1] - goal) // step))
        for times in range(min(most, goal // step), least - 1, -1):
            self.steps -= 1
            if self.steps < 0:
                return False
            if self.reaches(goal - step * times, at + 1):
                return True
        return False
