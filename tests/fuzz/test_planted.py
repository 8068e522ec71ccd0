"""Faults planted in an emitter are found, and the programs that show them made small."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import torch

import wrapper_ir as wir
from tests.fuzz import kernels
from wrapper_ir.debugging import by_difference, reduce
from wrapper_ir.emitters.python import lines
from wrapper_ir.lines import AllocateFromPool, walk
from wrapper_ir.lines.expr import quotient

if TYPE_CHECKING:
    import pytest

    from wrapper_ir.lines import Program
    from wrapper_ir.lines.expr import Dim


def two_slices() -> Program:
    """Two slices of one pool, side by side, and calls around them."""
    b = wir.Builder("slices", stage="planned")
    x = b.input("x", "f32", (4,))
    copy, double = (kernels.unary(b, what, "f32") for what in ("copy", "double"))
    pool = b.allocate_pool(64)
    one = b.allocate_from_pool(pool, 0, "f32", (4,))
    two = b.allocate_from_pool(pool, 16, "f32", (4,))
    b.call(copy, x, one, 4)
    b.call(double, x, two, 4)
    out = b.allocate("f32", (4,))
    b.call(double, one, out, 4)
    other = b.allocate("f32", (4,))
    b.call(copy, two, other, 4)
    for buffer in (one, two, pool):
        b.free(buffer)
    b.returns(out, other)
    return b.build()


def test_a_slice_in_the_wrong_place(monkeypatch: pytest.MonkeyPatch) -> None:
    def at_the_start(value: Dim, divisor: int) -> Dim | None:
        return None if quotient(value, divisor) is None else 0

    program = two_slices()
    judge = by_difference(program, [torch.arange(4.0)], ["python"])
    assert judge(program) == ""
    monkeypatch.setattr(lines, "quotient", at_the_start)
    assert judge(program) == "python: different results"
    small = reduce(program, lambda candidate: judge(candidate) == "python: different results")
    assert sum(isinstance(line, AllocateFromPool) for _, line in walk(small)) == 2
    assert len(small.results) == 1
    assert len(small.body) < len(program.body)


def test_an_alarm_of_the_caller_stays_set() -> None:
    judge = by_difference(two_slices(), [torch.arange(4.0)], ["python"])
    before = signal.setitimer(signal.ITIMER_REAL, 10_000, 20_000)
    try:
        assert judge(two_slices()) == ""
        left, interval = signal.getitimer(signal.ITIMER_REAL)
    finally:
        signal.setitimer(signal.ITIMER_REAL, *before)
    assert left > 0
    assert interval == 20_000


def test_what_reads_memory_that_nothing_wrote_is_nobodys_fault() -> None:
    b = wir.Builder("unwritten")
    x = b.allocate("f32", (4,))
    y = b.allocate("f32", (4,))
    b.call(kernels.unary(b, "copy", "f32"), x, y, 4)
    b.returns(y)
    program = b.build()
    assert by_difference(program, [], ["python"])(program) == "it reads uninitialized memory"
