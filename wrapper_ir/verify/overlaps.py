"""Calls of library ops whose arguments overlap, or that touch memory of a running collective.

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

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from wrapper_ir.analysis.ops import begins_work, ignores_strides, waits_for_work
from wrapper_ir.analysis.proof import Facts, end_of, sizes_of
from wrapper_ir.lines import AnyLine, Arg, Dim, Effects, ExternKernel, Layout, SchemaArg, effects
from wrapper_ir.lines.args import buffers_in
from wrapper_ir.lines.expr import dim
from wrapper_ir.verify import rules
from wrapper_ir.verify.calls import shown
from wrapper_ir.verify.state import Buffer, Frame, Kind, Place, State, Storage

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wrapper_ir.verify.lifetimes import Lifetimes

#: Namespaces of ops that come with torch, whose schemas do not declare allowed overlaps.
_OF_TORCH: Final = frozenset("""
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
        if namespace in _OF_TORCH and namespace != "aten":
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


# Collectives, which run asynchronously until the program waits for them.
#
# A functional collective starts work and returns. The contents of its results, and of arguments
# that it updates in place, are undefined until they or views of them are passed to ``wait_tensor``.
# Until then it may still read its other arguments. These may be read and freed (the op holds
# references), but not written or reused.


@dataclass(frozen=True, slots=True, eq=False)
class _Work:
    """Work that an op has started, and the storages that it reads."""

    op: str
    read: tuple[Storage, ...]


class Collectives:
    """Checks of storages that a collective is still using."""

    def __init__(self, state: State, lifetimes: Lifetimes) -> None:
        self.state = state
        self.lifetimes = lifetimes
        self._writing: dict[Storage, _Work] = {}
        self._reading: dict[Storage, set[_Work]] = {}

    def check(self, line: AnyLine, found: Effects) -> None:
        """Check that a line does not touch storage in use, or record that it waits."""
        if not self._writing:
            return
        waits = waits_for_work(line)
        for name in dict.fromkeys((*found.reads, *found.writes, *found.takes)):
            for storage in self.lifetimes.storages(name):
                work = self._writing.get(storage)
                if work is not None:
                    if not waits:
                        self._report(name, work)
                    self._end(storage, work)
        for name in dict.fromkeys((*found.writes, *found.takes)):
            for storage in self.lifetimes.storages(name):
                for work in self._reading.pop(storage, ()):
                    self._report(name, work)

    def check_result(self, name: str, place: Place) -> None:
        """Check that a result is not in use by a collective."""
        for storage in self.lifetimes.storages(name):
            work = self._writing.get(storage)
            if work is not None:
                self._report(name, work, place)

    def check_end(self, frame: Frame) -> None:
        """Check that a collective that a region started uses no parameter when the region ends."""
        place = Place(frame, None, "results[0]" if frame.region.results else "results")
        in_use = [*self._writing.items()]
        in_use += [(storage, work) for storage, each in self._reading.items() for work in each]
        for storage, work in in_use:
            if storage.first.kind is Kind.PARAM and storage.place.frame is frame:
                self._report(storage.owner, work, place)

    def start(self, line: ExternKernel) -> None:
        """Record the storages that a collective uses. Its results are already defined."""
        if begins_work(line):
            self._check_gaps(line)
            found = effects(line)
            written = [each for name in found.written for each in self.lifetimes.storages(name)]
            given = [each for name in found.reads for each in self.lifetimes.storages(name)]
            work = _Work(line.op, tuple(each for each in given if each not in written))
            self._writing.update(dict.fromkeys(written, work))
            for storage in work.read:
                self._reading.setdefault(storage, set()).add(work)

    def _check_gaps(self, line: ExternKernel) -> None:
        """Check that memory that an op takes as one piece has no gaps."""
        if not ignores_strides(line):
            return
        for name in effects(line).writes:
            buffer = self.lifetimes.buffers.get(name)
            layout = buffer.layout if buffer else None
            facts = self.state.facts
            if layout and facts.exceeds(layout.extent, layout.numel, sizes_of(layout)):
                self.state.report(rules.GAPS, name=name, op=shown(line.op))

    def _end(self, storage: Storage, work: _Work) -> None:
        """Remove work that was waited for. One wait may cover all results of an op."""
        del self._writing[storage]
        for each in work.read:
            self._reading.get(each, set()).discard(work)

    def _report(self, name: str, work: _Work, place: Place | None = None) -> None:
        self.state.report(rules.NOT_WAITED_FOR, place=place, name=name, op=shown(work.op))
