"""Plans of programs on several streams, held against an order that is found in another way.

The programs are made at random, with waits enough that most calls have those that they need. What
each call may overlap with is then found by walking a graph: a call comes before the next one of its
stream, before what waits for an event that is recorded behind it, and before nothing else.
"""

from __future__ import annotations

import random
from collections import defaultdict

import pytest

import wrapper_ir as wir
from tests.pages import ROOT
from wrapper_ir.lines import (
    Allocate,
    AllocateFromPool,
    ExternKernel,
    Free,
    Program,
    RecordEvent,
    Reuse,
    WaitEvent,
    effects,
)
from wrapper_ir.verify import rules

ADD = "aten::add.out(Tensor self, Tensor other, *, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)"


def made(seed: int, *, streams: int = 3, calls: int = 24, pools: int = 2) -> Program:
    """A program whose calls add two earlier buffers, on streams and from pools at random."""
    draw = random.Random(seed)
    b = wir.Builder("made", device="cuda:0")
    x = b.input("x", "f32", (64,))
    for _ in range(streams):
        b.stream()
    for _ in range(pools):
        b.mempool()
    start = b.event()
    b.record(start)
    for number in range(1, streams + 1):
        b.wait(start, number)
    buffers = [x]
    for _ in range(calls):
        stream, mempool = draw.randint(0, streams), draw.choice([0, 0, *range(1, pools + 1)])
        for other in range(streams + 1):  # more than is needed, but not all that there could be
            if other != stream and draw.random() < 0.6:
                event = b.event()
                b.record(event, other)
                b.wait(event, stream)
        with b.on(stream, mempool=mempool):
            out = b.allocate("f32", (draw.choice([64, 64, 128]),))
            left, right = draw.choices(buffers[-5:], k=2)
            b.extern(ADD, left, right, out=out)
        buffers.append(out)
    for number in range(1, streams + 1):
        event = b.event()
        b.record(event, number)
        b.wait(event)
    result = b.allocate("f32", (64,))
    b.extern(ADD, x, x, out=result)
    b.returns(result)
    return b.build(verify=False)


def repaired(program: Program) -> Program:
    """The program without the calls that race, and without what needs those."""
    while faults := [d for d in wir.diagnose(program) if d.rule is not rules.LEAK]:
        gone = {fault.path[0].position for fault in faults if fault.path}
        body = [line for n, line in enumerate(program.body) if n not in gone]
        defined = {"x"}
        kept = []
        for line in body:
            if isinstance(line, ExternKernel) and not {*effects(line).touched} <= defined:
                continue
            defined |= {*effects(line).defines}
            kept.append(line)
        program = program.replace(body=tuple(kept))
    return program


class Order:
    """Which lines of a planned program are certain to come after which."""

    def __init__(self, program: Program) -> None:
        self.before: dict[int, set[int]] = {}
        last: dict[int, set[int]] = defaultdict(set)
        recorded: dict[int, set[int]] = {}
        for position, line in enumerate(program.body):
            if isinstance(line, RecordEvent):
                recorded[line.event] = set(last[line.stream])
            elif isinstance(line, WaitEvent):
                last[line.stream] = last[line.stream] | recorded[line.event]
            elif isinstance(line, (Allocate, ExternKernel)):
                self.before[position] = set(last[line.stream])
                last[line.stream] = last[line.stream] | {position}


class Memory:
    """Pairs of calls that touch memory which may be one and the same, and one of them writes.

    That is a storage under all its names, and what is allocated on a stream and from a pool where
    something was freed before: the allocator hands it on at once, unless it was told to wait.
    """

    def __init__(self, program: Program) -> None:
        self.pairs: list[tuple[int, int, str]] = []
        self._storage: dict[str, int] = {"x": -1}
        self._touches: dict[int, list[tuple[int, bool]]] = defaultdict(list)
        #: Of each stream and pool: what was freed there, each with the streams waited for.
        self._freed: dict[tuple[int, int], list[tuple[int, tuple[int, ...]]]] = defaultdict(list)
        self._made_in: dict[int, tuple[int, int]] = {}
        self._streams: dict[int, int] = {}
        self._slices: set[int] = set()
        for position, line in enumerate(program.body):
            if isinstance(line, Allocate):
                self._allocate(position, line)
            elif isinstance(line, AllocateFromPool):  # for the caller's stream alone
                self._storage[line.out] = position
                self._slices.add(position)
            elif isinstance(line, Reuse):
                self._storage[line.out] = self._storage[line.donor]
            elif isinstance(line, Free):
                self._free(line)
            elif isinstance(line, ExternKernel):
                self._call(position, line)

    def _allocate(self, position: int, line: Allocate) -> None:
        self._storage[line.out] = position
        self._streams[position] = line.stream
        self._made_in[position] = line.stream, line.mempool
        self._touches[position].append((position, True))
        for old, after in self._freed[line.stream, line.mempool]:
            for before, _ in self._touches[old]:
                if self._streams[before] not in after:
                    self.pairs.append((before, position, line.out))

    def _free(self, line: Free) -> None:
        old = self._storage.get(line.buffer)  # none for a pool
        if old is not None and old in self._made_in:
            self._freed[self._made_in[old]].append((old, line.after))

    def _call(self, position: int, line: ExternKernel) -> None:
        self._streams[position] = line.stream
        does = effects(line)
        for name in (*does.reads, *does.writes):
            storage, writes = self._storage[name], name in does.writes
            assert storage not in self._slices or line.stream == 0
            for before, wrote in self._touches[storage]:
                if (wrote or writes) and before != position:
                    self.pairs.append((before, position, name))
            self._touches[storage].append((position, writes))


@pytest.mark.parametrize("strategy", ["none", "reuse", "pool"])
@pytest.mark.parametrize("seed", range(25))
def test_no_two_streams_meet_in_memory(seed: int, strategy: str) -> None:
    program = repaired(made(seed))
    planned = wir.verify(wir.plan_memory(program, strategy))
    order = Order(planned)
    for before, after, name in Memory(planned).pairs:
        assert before in order.before[after], (name, before, after, str(planned))


def test_there_is_something_to_find() -> None:
    """The programs have what the test is about: several streams, reuse, ends that wait."""
    planned = [wir.plan_memory(repaired(made(seed))) for seed in range(25)]
    lines = [line for program in planned for line in program.body]
    assert sum(isinstance(line, Reuse) for line in lines) > 20
    assert sum(isinstance(line, Free) and bool(line.after) for line in lines) > 20
    used = [{each.stream for each in p.body if isinstance(each, ExternKernel)} for p in planned]
    assert sum(len(streams) > 2 for streams in used) > 20


def test_memory_goes_on_within_a_stream_and_a_pool() -> None:
    for seed in range(25):
        planned = wir.plan_memory(repaired(made(seed)))
        where: dict[str, tuple[int, int]] = {}
        logical = {line.out: line for line in made(seed).body if isinstance(line, Allocate)}
        for line in planned.body:
            if isinstance(line, Allocate):
                where[line.out] = line.stream, line.mempool
            elif isinstance(line, Reuse):
                where[line.out] = where[line.donor]
                meant = logical[line.out]
                assert where[line.out] == (meant.stream, meant.mempool)


def test_a_plan_that_forgets_to_wait_is_found() -> None:
    """The verifier sees what the order of this file sees: without ``after``, ends are too early."""
    found = 0
    for seed in range(25):
        planned = wir.plan_memory(repaired(made(seed)))
        hasty = tuple(
            Free(line.buffer) if isinstance(line, Free) else line for line in planned.body
        )
        if hasty != planned.body:
            faults = wir.diagnose(planned.replace(body=hasty))
            assert {fault.rule for fault in faults} == {rules.ENDS_EARLY}
            found += 1
    assert found > 10


def test_what_waits_is_freed_where_it_has_waited() -> None:
    b = wir.Builder("joined", device="cuda:0")
    x = b.input("x", "f32", (64,))
    side, fork, join = b.stream(), b.event(), b.event()
    given = b.allocate("f32", (64,))
    b.extern(ADD, x, x, out=given)
    b.record(fork)
    b.wait(fork, side)
    with b.on(side):
        made_there = b.allocate("f32", (64,))
        b.extern(ADD, given, given, out=made_there)
    out = b.allocate("f32", (64,))
    b.extern(ADD, x, x, out=out)
    b.record(join, side)
    b.wait(join)
    result = b.allocate("f32", (64,))
    b.extern(ADD, made_there, out, out=result)
    b.returns(result)
    text = [line.strip() for line in str(wir.plan_memory(b.build(), "none")).splitlines()]
    # What the side stream reads is done with at the join; what it made, the caller still reads.
    assert text.index(f"free %{given.name}") == text.index("wait_event 2 @cuda:0") + 1
    assert f"free %{made_there.name} after [0]" in text


def test_the_program_of_the_page() -> None:
    page = (ROOT / "docs" / "gpu.md").read_text(encoding="utf-8")
    text = page.partition("```wir\n")[2].partition("```")[0]
    program = wir.verify(wir.parse(text))
    assert program.name == "side_by_side"
    assert "    with stream_1:\n        a = aten_mm(x, x)\n" in wir.emit(program).source
    hasty = text.replace("  wait_event 1 @cuda:0 stream 1\n", "")
    assert {fault.rule for fault in wir.diagnose(wir.parse(hasty))} == {rules.RACE}
