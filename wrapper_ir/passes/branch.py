"""Branches: kernels of a captured graph that run in parallel.

A CUDA graph keeps exactly the order that streams and events establish among kernels. Kernels
captured on one stream form a chain: each waits for the one before, even if they are independent, as
the projections of an attention block are. :func:`branch` puts such work on streams that exist only
while a call is captured (``stream 1 @cuda:0 captured``) and makes each stream wait for exactly the
work that it depends on. Lines keep their order, so a call that is not captured behaves as before,
on the caller's stream.

Dependences follow from effects and aliases: the lines that read and write each storage. The
verifier checks the result like any program with streams, and the planner frees storage after the
last stream that works on it.

The method is list scheduling with the figures below: a line goes to the stream on which it finishes
first, joins included, if that is sooner than on the caller's stream. Only Triton kernels and matrix
products into given memory move: they allocate nothing, draw no random numbers and start no other
streams. Work that fills a GPU by itself does not move, and nothing runs beside it. Memory that a
branch writes is allocated before the branch begins; if that takes more than ``_MOST_EARLY`` bytes,
the line does not move.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, ClassVar, Final, TypeAlias

import wrapper_ir.lines as ir
from wrapper_ir.analysis.liveness import Life, Liveness
from wrapper_ir.analysis.ops import PRODUCTS
from wrapper_ir.analysis.ordering import read_until, touch
from wrapper_ir.lines.traits import allocates_one, calls, calls_kernel, calls_op, ends, shows
from wrapper_ir.options.gpu import GRAPH_BRANCHES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


_START: Final = 1.5
"""Fixed cost of a kernel in microseconds, besides its memory traffic and arithmetic."""

_PRODUCT_START: Final = 5.5
"""The same for a matrix product. On an H200, 1 by 2048 by 512 takes 5.3, 0.4 of it traffic."""

_HANDOVER: Final = 1.0
"""Microseconds until work that waited for another stream starts."""

_BYTES: Final = 4.5e6
"""Memory bandwidth in bytes per microsecond, shared by all streams."""

_FLOPS: Final = 4e8
"""Arithmetic throughput in operations per microsecond."""

_TILE: Final = 128
"""Rows and columns of a product that one thread block computes, in large products."""

_FULL: Final = 128
"""The number of product tiles that keep a GPU busy."""

_FULL_BLOCKS: Final = 2048
"""The number of Triton blocks that keep a GPU busy."""

_BLOCK_BYTES: Final = 64 << 10
"""The most bytes that a Triton block reads and writes."""

_MOST_EARLY: Final = 16 << 20
"""The most bytes that may be allocated before a branch for one of its lines."""

_MAIN: Final = 0
"""The stream that the call is captured on."""

_NEVER: Final = -2
"""A position before -1, which stands for the start of the program."""

_Call: TypeAlias = "ir.KernelCall | ir.ExternKernel"


@dataclass(frozen=True, slots=True)
class Branch:
    """``branch`` moves independent work to branches, for calls that are captured."""

    name: ClassVar[str] = "branch"

    limit: int = GRAPH_BRANCHES.field()
    """The maximum number of branches besides the caller's stream."""

    def __call__(self, program: ir.Program) -> ir.Program:
        """Return the program with streams and events added, if that is faster."""
        return branch(program, self.limit)


def branch(program: ir.Program, limit: int) -> ir.Program:
    """Put independent work on at most ``limit`` separate streams, for calls that are captured.

    A program with streams of its own, several GPUs, regions or probes stays as it is, and so does
    one where nothing is gained: the result is the same object.
    """
    device = _device(program)
    if device is None or limit < 1:
        return program
    scheduler = _Scheduler(program, limit)
    for position, line in enumerate(program.body):
        scheduler.step(position, line)
    return scheduler.finish(device)


def _device(program: ir.Program) -> ir.Device | None:
    """Return the GPU of a program whose work can be put on streams; ``None`` for others."""
    if program.streams or program.events or program.mempools or program.objects:
        return None
    devices = {line.device for line in program.body if calls(line)}
    if len(devices) != 1 or any(map(_disturbs, program.body)):
        return None
    device = devices.pop()
    return device if device.kind.captures else None


def _disturbs(line: ir.AnyLine) -> bool:
    """Return whether a line has regions, orders streams, or reads contents without a call."""
    found = ir.effects(line)
    seen = {*found.peeks, *found.reads, *found.writes} - {alias.source for alias in found.aliases}
    is_other = line.runs.orders or shows(line) or bool(ir.regions_of(line))
    return is_other or (bool(seen) and not calls(line))


@dataclass(slots=True)
class _Uses:
    """The positions of the lines that work on a storage."""

    writer: int = -1
    readers: list[int] = field(default_factory=list)
    allocation: int | None = None
    """The line that allocates it, until something has worked on it."""

    def needed(self, *, writes: bool) -> Iterator[int]:
        """Yield the lines that must be done before it is read, or written."""
        if self.writer >= 0:
            yield self.writer
        if writes:
            yield from self.readers


class _Scheduler:
    """The assignment of a program's lines to streams, with the waits that it needs.

    Positions are indices of lines of the given program.
    """

    def __init__(self, program: ir.Program, limit: int) -> None:
        self._program = program
        self._costs = _Costs(program)
        self._lives = Liveness(program.region, program)
        self._uses: defaultdict[Life, _Uses] = defaultdict(_Uses)
        self._streams = range(limit + 1)
        #: The clock of each stream: its own last line, and the lines of others it has waited for.
        self._seen: list[dict[int, int]] = [{} for _ in self._streams]
        #: The clock after each line.
        self._after: list[dict[int, int]] = []
        self._stream_of: dict[int, int] = {}
        #: The time at which each stream becomes free, and each line is done, in microseconds.
        self._free_at = [0.0 for _ in self._streams]
        self._done_at: defaultdict[int, float] = defaultdict(float)
        #: The time at which all memory traffic so far is done; streams share the bandwidth.
        self._memory_at = 0.0
        self._first = next((n for n, each in enumerate(program.body) if calls(each)), 0)
        self._last_symbol = max(
            (n for n, each in enumerate(program.body) if ir.effects(each).defines_symbols),
            default=-1,
        )
        self._events: dict[tuple[int, int], int] = {}
        self._waits: defaultdict[int, list[ir.WaitEvent]] = defaultdict(list)
        self._early: defaultdict[int, list[int]] = defaultdict(list)

    # Lines.

    def step(self, position: int, line: ir.AnyLine) -> None:
        """Process the next line."""
        if calls(line):
            self._place(position, line)
        else:
            self._pass(position, line)
        at = self._seen[self._on(position)]
        self._after.append({**at, self._on(position): position})

    def _pass(self, position: int, line: ir.AnyLine) -> None:
        """Process a line that puts no work on a stream."""
        if allocates_one(line):
            uses = self._uses[self._storage(line.out)[0]]
            uses.allocation = position
            if line.zeroed:
                uses.writer, uses.allocation = position, None
        elif ends(line):
            uses_of = [self._uses[life] for life in self._storage(line.buffer)]
            needs = {n for uses in uses_of for n in uses.needed(writes=True)}
            self._wait(position, _MAIN, needs)

    def _place(self, position: int, line: _Call) -> None:
        work = touch(line, self._program)
        needs = {
            n
            for names, writes in ((work.reads, False), ((*work.writes, *work.made), True))
            for name in names
            for life in self._storage(name)
            for n in self._uses[life].needed(writes=writes)
        }
        stream = self._choose(line, needs) if self._costs.may_move(line) else _MAIN
        start, done = self._start(stream, needs), self._done(line, stream, needs)
        self._free_at[stream] = self._done_at[position] = done
        if stream == _MAIN:
            self._memory_at = max(self._memory_at, start)
        self._memory_at += self._costs.of(line)[1]
        self._begin(position, line, stream, needs)
        if self._costs.fills(line):
            self._free_at = [max(each, self._done_at[position]) for each in self._free_at]
        until = read_until(line, needs, self._program)
        for name in (*work.reads, *until):
            for life in self._storage(name):
                self._uses[life].readers.append(position)
        for name in (*work.writes, *work.made):
            for life in self._storage(name):
                self._uses[life] = _Uses(position)

    def _storage(self, name: str) -> tuple[Life, ...]:
        """Return the storages that a name may be a view of, through ties of constants."""
        constant = self._program.constants.get(name)
        while constant is not None and constant.tied_to is not None:
            name = constant.tied_to
            constant = self._program.constants.get(name)
        return tuple(life.first for life in self._lives.of(name))

    # Choosing.

    def _choose(self, line: _Call, needs: set[int]) -> int:
        """Return the stream on which a line is done first, as seen from the caller's stream.

        Ties go to the stream with fewer waits, then to the lower number.
        """

        def rank(stream: int) -> tuple[float, int, int]:
            done = self._done(line, stream, needs) + (_HANDOVER if stream != _MAIN else 0)
            return round(done, 3), sum(not self._knows(stream, n) for n in needs), stream

        for stream in sorted(self._streams, key=rank):
            if stream == _MAIN or self._early_allocations(line, stream, needs) is not None:
                return stream
        return _MAIN

    def _done(self, line: _Call, stream: int, needs: set[int]) -> float:
        """Return the time at which a line would be done on a stream."""
        start, transfer = self._costs.of(line)
        return max(self._start(stream, needs), self._memory_at) + start + transfer

    def _start(self, stream: int, needs: set[int]) -> float:
        """Return the time at which work can start on a stream."""
        others = (
            self._done_at[n] + (_HANDOVER if self._on(n) != stream else 0)
            for n in needs
            if not self._knows(stream, n)
        )
        return max((self._free_at[stream], *others))

    def _on(self, position: int) -> int:
        """Return the stream of a line."""
        return self._stream_of.get(position, _MAIN)

    def _knows(self, stream: int, position: int) -> bool:
        """Return whether a stream comes after a line without waiting for it."""
        other = self._on(position)
        return other == stream or self._seen[stream].get(other, _NEVER) >= position

    def _fork(self, stream: int, needs: set[int]) -> int:
        """Return the last line of the caller's stream that work on another stream will follow."""
        on_main = [n for n in needs if self._on(n) == _MAIN]
        through = [self._after[n].get(_MAIN, -1) for n in needs if self._on(n) != _MAIN]
        known = self._seen[stream].get(_MAIN, self._first - 1)
        return max(known, *on_main, *through, -1)

    def _early_allocations(self, line: _Call, stream: int, needs: set[int]) -> list[int] | None:
        """Return the allocations to make before a branch gets a line; ``None`` if impossible."""
        fork, found = self._fork(stream, needs), []
        for name in touch(line, self._program).writes:
            for life in self._storage(name):
                allocation = self._uses[life].allocation
                if allocation is not None and allocation > fork:
                    found.append(allocation)
        lines = [self._program.body[n] for n in found]
        outs = [each.out for each in lines if allocates_one(each)]
        if fork < self._last_symbol and any(self._program.layout(n).symbols for n in outs):
            return None
        return found if sum(map(self._costs.bytes_of, outs)) <= _MOST_EARLY else None

    # Ordering.

    def _begin(self, position: int, line: _Call, stream: int, needs: set[int]) -> None:
        """Make a line's stream wait for the lines that it depends on."""
        self._stream_of[position] = stream
        if stream != _MAIN:
            early = self._early_allocations(line, stream, needs) or []
            fork = self._fork(stream, needs)
            self._early[fork] += early
            for allocation in early:
                out = self._program.body[allocation]
                assert allocates_one(out)
                self._uses[self._storage(out.out)[0]].allocation = None
            needs = {*needs, fork}
        self._wait(position, stream, needs)
        self._seen[stream][stream] = position

    def _wait(self, position: int, stream: int, needs: set[int]) -> None:
        """Make a stream wait before a line for the lines that it does not follow already."""
        for need in sorted(needs, reverse=True):  # the latest first: it may cover the others
            if self._knows(stream, need):
                continue
            other = self._on(need)
            event = self._events.setdefault((other, need), len(self._events) + 1)
            device = self._costs.device
            self._waits[position].append(ir.WaitEvent(event=event, device=device, stream=stream))
            known = self._after[need] if need >= 0 else {_MAIN: need}
            for each, at in known.items():
                if each != stream:
                    self._seen[stream][each] = max(at, self._seen[stream].get(each, _NEVER))

    # The result.

    def finish(self, device: ir.Device) -> ir.Program:
        """Return the program, with all streams joined at the end."""
        body = self._program.body
        used = sorted({stream for stream in self._stream_of.values() if stream != _MAIN})
        if not used:
            return self._program
        last = {stream: at for at, stream in self._stream_of.items()}
        self._wait(len(body), _MAIN, {last[stream] for stream in used})
        numbers = {_MAIN: _MAIN, **{stream: n for n, stream in enumerate(used, start=1)}}
        events = dict(sorted(self._events.items(), key=lambda item: item[1]))
        records: defaultdict[int, list[ir.RecordEvent]] = defaultdict(list)
        for (stream, at), event in events.items():
            record = ir.RecordEvent(event=event, device=device, stream=numbers[stream])
            records[at].append(record)
        moved = {n for early in self._early.values() for n in early}
        lines: list[ir.AnyLine] = [*(body[n] for n in self._early[-1]), *records[-1]]
        for position, line in enumerate(body):
            lines += self._waits_at(position, numbers)
            if position not in moved:
                if calls(line) and self._on(position) != _MAIN:
                    line = dataclasses.replace(line, stream=numbers[self._on(position)])
                lines.append(line)
            lines += [body[n] for n in self._early[position]]
            lines += records[position]
        lines += self._waits_at(len(body), numbers)
        streams = tuple(ir.Stream(device, captured=True) for _ in used)
        return self._program.replace(
            body=tuple(lines), streams=streams, events=tuple(ir.Event() for _ in events)
        )

    def _waits_at(self, position: int, numbers: dict[int, int]) -> list[ir.WaitEvent]:
        return [
            dataclasses.replace(wait, stream=numbers[wait.stream]) for wait in self._waits[position]
        ]


class _Costs:
    """Rough costs of calls, and the calls that may run beside others."""

    def __init__(self, program: ir.Program) -> None:
        self._program = program
        from wrapper_ir.planning.sizes import Sizes  # noqa: PLC0415 - the planner is large

        self._sizes = Sizes(program)
        self.bytes_of = self._sizes.of
        self.device = next(line.device for line in program.body if calls(line))

    def of(self, line: _Call) -> tuple[float, float]:
        """Return a call's fixed cost and its traffic or arithmetic time, in microseconds."""
        found = ir.effects(line, self._program)
        moved = sum(map(self.bytes_of, {*found.reads, *found.written}))
        if calls_kernel(line):
            moved = min(moved, self._blocks(line) * _BLOCK_BYTES)
        start = _PRODUCT_START if self._operations(line) else _START
        return start, max(moved / _BYTES, self._operations(line) / _FLOPS)

    def may_move(self, line: _Call) -> bool:
        """Return whether a call can move: it allocates nothing and does not fill the GPU."""
        if calls_op(line):
            return line.op in PRODUCTS and not line.results and not self.fills(line)
        assert calls_kernel(line)
        language = self._program.kernels[line.kernel].source.language
        return language is not None and language.has_grid and not self.fills(line)

    def fills(self, line: _Call) -> bool:
        """Return whether a call occupies the whole GPU."""
        if calls_kernel(line):
            return self._is_cooperative(line) or self._blocks(line) > _FULL_BLOCKS
        *batch, rows, columns = self._numbers(self._out(line)) or (0, 0)
        return prod(batch) * -(-rows // _TILE) * -(-columns // _TILE) > _FULL

    def _is_cooperative(self, line: ir.KernelCall) -> bool:
        source = self._program.kernels[line.kernel].source
        options: tuple[tuple[str, object], ...] = getattr(source, "options", ())
        return bool(dict(options).get("launch_cooperative_grid"))

    def _blocks(self, line: ir.KernelCall) -> int:
        return prod(self._numbers(line.grid))

    def _numbers(self, sizes: Iterable[ir.Scalar]) -> list[int]:
        """Evaluate sizes at the hints."""
        return [self._sizes.scalar(size) or 1 for size in sizes]

    def _out(self, line: _Call) -> tuple[ir.Dim, ...]:
        """Return the size of a product's output; empty for other calls."""
        out = dict(line.kwargs).get("out") if calls_op(line) and line.op in PRODUCTS else None
        return self._program.layout(out.buffer).size if isinstance(out, ir.BufferArg) else ()

    def _operations(self, line: _Call) -> int:
        """Return the number of multiplications and additions of a product."""
        out = self._numbers(self._out(line))
        buffers = [arg.buffer for arg in line.args if isinstance(arg, ir.BufferArg)] if out else []
        # The rows of the last operand, in mm(a, b) as in addmm(c, a, b).
        depth = self._numbers(self._program.layout(n).size[-2] for n in buffers[-1:])
        return 2 * prod((*depth, *out)) if out else 0
