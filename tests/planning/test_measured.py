"""Programs that run: what torch's allocator gave out at most is what the report says."""

from __future__ import annotations

import random

import pytest
import torch

import wrapper_ir as wir
from tests.models.memory import peak_bytes
from wrapper_ir.planning import Interval, check_plan, plan

CHAIN = """\
wir 2
program @p inference logical

symbol s0 : int [1, 4096] hint 16
input %x : f32[s0, 33] @cpu

extern aten::relu.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)
extern aten::neg.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)
extern aten::mul.out(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)

  s0 = size %x, 0
  %a = allocate : f32[s0, 33] @cpu
  aten::relu.out(%x, out=out %a)
  %b = allocate : f32[s0, 33] @cpu
  aten::neg.out(%x, out=out %b)
  %c = allocate : f32[s0, 33] @cpu
  aten::mul.out(%a, %b, out=out %c)
  %d = allocate : f32[s0, 33] @cpu
  aten::mul.out(%c, %x, out=out %d)
  %e = allocate : f32[s0, 33] @cpu
  aten::mul.out(%d, %b, out=out %e)
return %e
"""

ADD = "aten::add.out(Tensor self, Tensor other, *, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)"

#: A way of planning: strategy, and how long its arenas last.
WAYS = [("none", "call"), ("reuse", "call"), ("pool", "call"), ("pool", "kept")]


@pytest.mark.parametrize("dynamic", [True, False])
@pytest.mark.parametrize(("strategy", "arena"), WAYS)
def test_the_measured_peak_is_the_reported_one(strategy: str, arena: str, dynamic: bool) -> None:
    text = CHAIN if dynamic else CHAIN.replace("s0, 33]", "16, 33]")
    result = plan(wir.parse(text), strategy, arena=arena)
    run = wir.emit(result.program, "python", arena=arena).load()
    x = torch.randn(16, 33)
    (got,) = run(x)
    negative = torch.neg(x)
    assert torch.equal(got, torch.relu(x) * negative * x * negative)
    wir.release_kept_memory()
    assert peak_bytes(lambda: run(x)) == result.report.peak_bytes


def lives(seed: int, count: int) -> tuple[wir.Program, float]:
    """Storages of random sizes and lifetimes, each filled when it begins and read when it ends.

    Read are its first and its last element; the program returns the sum of all that was read,
    which is returned here too.
    """
    draw = random.Random(seed)
    events = []
    for number in range(count):
        start = draw.randint(0, 2 * count)
        events += [(start, 1, number), (start + draw.randint(1, 6), 0, number)]
    sizes = [16 * draw.randint(1, 9) for _ in range(count)]  # multiples of the alignment
    text = [
        "wir 2\nprogram @p inference logical\n\ninput %x : f32[1] @cpu\n",
        "extern aten::neg.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)",
        f"extern {ADD}",
        "extern aten::fill_.Scalar(Tensor(a!) self, Scalar value) -> Tensor(a!)\n",
        "  %r = allocate : f32[16] @cpu",
        "  %r0 = reinterpret %r : f32[1] @cpu",
        "  aten::neg.out(%x, out=out %r0)",
    ]
    for _, begins, n in sorted(events):
        if begins:
            text += [f"  %b{n} = allocate : f32[{sizes[n]}] @cpu"]
            text += [f"  aten::fill_.Scalar(out %b{n}, {n + 1})"]
        else:
            for part, place in (("f", 0), ("l", sizes[n] - 1)):
                offset = f"+{place}" if place else ""
                text += [f"  %b{n}{part} = reinterpret %b{n} : f32[1]{offset} @cpu"]
                text += [f"  aten::add.out(%r0, %b{n}{part}, out=inout %r0)"]
    source = wir.parse("\n".join([*text, "return %r0\n"]))
    return source, float(count * (count + 1))


@pytest.mark.parametrize("seed", range(20))
def test_random_lifetimes_run_right_and_take_what_is_reported(seed: int) -> None:
    source, expected = lives(seed, 3 + seed)
    for strategy, arena in WAYS:
        check_run("python", source, expected, strategy, arena)


@pytest.mark.parametrize(("strategy", "arena"), WAYS[1:])
def test_so_do_they_in_cpp(strategy: str, arena: str) -> None:
    check_run("cpp", *lives(5, 12), strategy, arena)


def check_run(target: str, source: wir.Program, expected: float, strategy: str, arena: str) -> None:
    """Plan, run twice, compare with the report."""
    result = plan(source, strategy, arena=arena)
    check_plan(result.program)
    run = wir.emit(result.program, target, arena=arena).load()
    x = torch.zeros(1)
    first, second = run(x), run(x)
    assert first[0].item() == second[0].item() == expected
    del first, second
    wir.release_kept_memory()
    assert peak_bytes(lambda: run(x)) == result.report.peak_bytes


def is_possible(given: list[Interval], height: int) -> bool:
    """Whether a plan of at most ``height`` exists, by exhaustion.

    Intervals are dropped onto what is there in each order; of one set of placed intervals, equal
    skylines are the same.
    """
    needed = [(a, b, s) for a, b, s in given if s and b > a]
    times = sorted({a for a, _, _ in needed})
    spans = [[k for k, t in enumerate(times) if a <= t < b] for a, b, _ in needed]
    left = [
        sum(n[2] for n, span in zip(needed, spans, strict=True) if k in span) for k in range(99)
    ]
    states = {(0, (0,) * len(times), tuple(left[: len(times)]))}
    for _ in needed:
        after = set()
        for placed, sky, rest in states:
            for i, span in enumerate(spans):
                if placed >> i & 1:
                    continue
                top = max(sky[k] for k in span) + needed[i][2]
                raised, remains = list(sky), list(rest)
                for k in span:
                    raised[k] = top
                    remains[k] -= needed[i][2]
                if all(a + b <= height for a, b in zip(raised, remains, strict=True)):
                    after.add((placed | 1 << i, tuple(raised), tuple(remains)))
        states = after
    return bool(states)


@pytest.mark.parametrize("seed", range(30))
def test_arenas_of_up_to_twelve_are_as_small_as_can_be(seed: int) -> None:
    source, _ = lives(seed, 12)
    result = plan(source, arena="kept")
    (arena,) = result.report.arenas
    assert 1 < len(arena.slices) <= 12
    intervals = [(each.start, each.end, each.nbytes // 64) for each in arena.slices]
    assert arena.nbytes % 64 == 0
    assert not is_possible(intervals, arena.nbytes // 64 - 1)
