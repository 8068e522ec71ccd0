"""Several ranks in one process, in random turns, with a network of our own between them.

Each rank is a thread that has its turn alone: after some lines, or where it has to wait, it hands
over to the scheduler, which draws who goes on, or which collective comes to pass. So a run depends
on its seed alone.
"""

from __future__ import annotations

import copy
import random
import threading
from collections.abc import Callable, Sequence
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import wrapper_ir.lines as ir
from wrapper_ir.analysis.collectives import (
    Kind,
    call_of,
    waits_for_work,
    why_unknown,
    worked_on,
)
from wrapper_ir.analysis.ops import schema_of
from wrapper_ir.errors import UnsupportedError, WrapperIRError
from wrapper_ir.interpreter import memory as mem
from wrapper_ir.interpreter.calls import called_kernels, value_of
from wrapper_ir.interpreter.collectives import refuse_unknown, size_of_result
from wrapper_ir.interpreter.network import Given, Meeting, Network, Work, fill
from wrapper_ir.interpreter.queues import RaceError
from wrapper_ir.interpreter.run import Interpreter, check_runnable, run
from wrapper_ir.lines.args import buffers_in
from wrapper_ir.verify.ranks import check_blocking, checked_programs, settled_groups
from wrapper_ir.verify.ranks.report import named_ranks

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from torch import Tensor

    from wrapper_ir.analysis.collectives import Call
    from wrapper_ir.interpreter.calls import Launch
    from wrapper_ir.verify.ranks.deadlock import Blocking
    from wrapper_ir.verify.ranks.groups import Given as GivenGroups
    from wrapper_ir.verify.ranks.groups import Groups

#: The most lines that a rank runs in one turn, and the turns after which the ranks' speeds change.
_LINES: Final = 6
_TURNS: Final = 40

#: How soon a collective comes to pass that all members have called, where a rank has up to 1: at
#: once, some time later, or not before somebody has to wait for it.
_HASTE: Final = (2.0, 0.2, 1e-6)

_WAIT_FIRST: Final = "call _c10d_functional::wait_tensor on it first"


class DeadlockError(WrapperIRError):
    """Ranks wait forever. Field: ``who``, a line for each of them."""

    code = "WIR2412"
    template = "ranks wait forever:\n{who}"
    default_hint = "wir.verify_ranks tells before a run which calls do not fit together"


class _StoppedError(BaseException):
    """Ends the thread of a rank after another one failed."""


@dataclass(eq=False)
class _Rank:
    """One rank: its thread, and what it waits for."""

    number: int
    interpreter: Interpreter
    inputs: Sequence[Any]
    turn: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    may_go_on: Callable[[], bool] = lambda: True
    waits_for: tuple[Work, ...] = ()
    place: str = ""
    results: tuple[Any, ...] = ()
    error: BaseException | None = None
    is_done: bool = False
    speed: float = 1.0
    turns: Turns = field(init=False)


class _Run:
    """All ranks, and the scheduler."""

    def __init__(
        self,
        ranks: list[_Rank],
        groups: Groups,
        seed: int,
        blocking: Blocking,
        *,
        check_races: bool,
    ) -> None:
        self.ranks = ranks
        self.check_races = check_races
        self.groups = groups
        self.network: Network = Network(groups.members)
        self.blocking = blocking
        self.is_stopped: bool = False
        self.back: threading.Semaphore = threading.Semaphore(0)
        self.random: random.Random = random.Random(seed)

    def go(self) -> list[tuple[Any, ...]]:
        """Run all ranks to their ends.

        Raises:
            DeadlockError: Some wait forever.
            WrapperIRError: A rank failed.
        """
        context = copy_context()
        threads = [
            threading.Thread(target=context.copy().run, args=(self._work, rank), daemon=True)
            for rank in self.ranks
        ]
        for thread in threads:
            thread.start()
        try:
            self._schedule()
        finally:
            self.is_stopped = True
            for rank, thread in zip(self.ranks, threads, strict=True):
                rank.turn.release()
                thread.join()
        return [rank.results for rank in self.ranks]

    def _work(self, rank: _Rank) -> None:
        """Run a rank, as its thread."""
        rank.turn.acquire()
        try:
            if not self.is_stopped:
                rank.results = run(rank.interpreter, rank.interpreter.program, rank.inputs)
                rank.turns.end()
        except _StoppedError:
            pass
        except BaseException as error:
            rank.error = error
        rank.is_done = True
        self.back.release()

    def _schedule(self) -> None:
        turns = 0
        while True:
            if turns % _TURNS == 0:
                for rank in self.ranks:
                    rank.speed = self.random.random() ** 3 + 0.01
            turns += 1
            able = [rank for rank in self.ranks if not rank.is_done and rank.may_go_on()]
            ready = self.network.ready
            if not able and not ready:
                break
            for meeting in ready:
                meeting.haste = meeting.haste or self.random.choice(_HASTE)
            choices: list[_Rank | Meeting] = [*able, *ready]
            weights = [rank.speed for rank in able] + [each.haste for each in ready]
            (chosen,) = self.random.choices(choices, weights)
            if isinstance(chosen, Meeting):
                ready.remove(chosen)
                chosen.come_to_pass()
                continue
            rank = chosen
            rank.turn.release()
            self.back.acquire()
            if rank.error is not None:
                rank.error.add_note(f"on rank {rank.number}")
                raise rank.error
        stuck = [rank for rank in self.ranks if not rank.is_done]
        if stuck:
            raise self._deadlock(stuck)

    def _deadlock(self, stuck: Sequence[_Rank]) -> DeadlockError:
        who = "\n".join(f"  rank {rank.number} at {rank.place}{self._why(rank)}" for rank in stuck)
        return DeadlockError(who=who)

    def _why(self, rank: _Rank) -> str:
        """Say what keeps a rank waiting."""
        for work in rank.waits_for:
            if missing := work.missing():
                ended = [number for number in missing if self.ranks[number].is_done]
                at_end = f"; {named_ranks(ended)} at the end already" if ended else ""
                return f", waits in {work.place} for {named_ranks(missing)}{at_end}"
            for meeting in work.meetings:
                others = [other for other in meeting.works if other is not work]
                if not meeting.is_done and others:
                    unlike = [other for other in others if other.form() != work.form()] or others
                    said = f"rank {unlike[0].rank} calls {unlike[0].place}"
                    return f", waits in {work.place}, where {said}"
        return ""


class Turns:
    """The peers of one rank: its turns between lines, and its lines that talk to others."""

    def __init__(self, run_: _Run, rank: _Rank) -> None:
        self._run = run_
        self._rank = rank
        self._flying: dict[mem.Storage, Work] = {}
        self._given: dict[mem.Storage, Work] = {}
        """What work only reads that nobody has waited for."""
        self._left = 0

    def before(self, path: ir.Path, line: ir.AnyLine) -> None:
        """Hand over before a line, now and then."""
        source = self._rank.interpreter.program.source_of(line)
        self._rank.place = f"{path} ({source})" if source else str(path)
        if self._run.check_races and (self._flying or self._given):
            self._check(line, path)
        if self._left <= 0:
            self._left = self._run.random.randint(1, _LINES)
            self._pause(lambda: True)
        self._left -= 1

    def _check(self, line: ir.AnyLine, path: ir.Path) -> None:
        """Check that a line leaves alone what collectives still use."""
        if waits_for_work(line):
            return
        found, frame = ir.effects(line), self._rank.interpreter.frame
        viewed = {alias.source for alias in found.aliases}
        changed = (*found.writes, *found.takes)
        for name in (*found.reads, *changed):
            buffer = frame.buffers.get(name) or frame.constants.get(name)
            for storage in buffer.storages if buffer is not None and name not in viewed else ():
                work = self._flying.get(storage)
                if work is None and name in changed:
                    work = self._given.get(storage)
                if work is not None:
                    verb = "write" if name in changed else "read"
                    what = f"the {verb} at {self._rank.place}"
                    raise RaceError(
                        name=name, line=what, other=work.place, path=path, hint=_WAIT_FIRST
                    )

    def _pause(self, until: Callable[[], bool], works: tuple[Work, ...] = ()) -> None:
        """Let others go on until something holds."""
        rank = self._rank
        rank.may_go_on, rank.waits_for = until, works
        self._run.back.release()
        rank.turn.acquire()
        if self._run.is_stopped:
            raise _StoppedError
        rank.waits_for = ()

    def end(self) -> None:
        """Lose what nobody waited for: the caller may look at it too soon."""
        for storage, work in self._flying.items():
            if self._run.check_races:
                what, other = "what the caller does next", work.place
                raise RaceError(name=storage.owner, line=what, other=other, hint=_WAIT_FIRST)
            for out in work.outs:
                if out is not None:
                    fill(out)
            work.outs = [None] * len(work.outs)

    def talk(self, line: ir.ExternKernel) -> bool:
        """Call a collective, or wait for some; return False for other lines."""
        if why := why_unknown(line.op):
            what = f"{line.op}, which {why}"
            raise UnsupportedError(what=what, where="a run of several ranks")
        if waits_for_work(line):
            self._wait(line)
        elif call := call_of(self._rank.interpreter.program, line):
            self._start(line, call)
        else:
            return False
        return True

    def _wait(self, line: ir.ExternKernel) -> None:
        frame = self._rank.interpreter.frame
        storages = [s for a in buffers_in(line.args) for s in frame.find(a.buffer).storages]
        works = tuple(dict.fromkeys(self._flying[s] for s in storages if s in self._flying))
        self._hold(works)
        for storage in storages:
            self._flying.pop(storage, None)
        self._given = {s: work for s, work in self._given.items() if work not in works}
        self._rank.interpreter.bind_results(line, value_of(frame, line.args[0]))

    def _hold(self, works: tuple[Work, ...]) -> None:
        """Wait until works are done."""
        if not all(work.is_done for work in works):
            self._pause(lambda: all(work.is_done for work in works), works)

    def _start(self, line: ir.ExternKernel, call: Call) -> None:
        frame = self._rank.interpreter.frame
        work = self._work(line, call)
        written = [frame.find(name).tensor for name in ir.effects(line).writes]
        self._rank.interpreter.bind_results(line, self._value(line, work, written))
        work.outs = self._outs(line, work, written)
        for out in (*written, *work.outs):  # an argument that is no result is scratch
            if out is not None:
                fill(out)
        self._run.network.post(work)
        if not work.call.facts.in_flight:
            self._hold((work,))
            return
        for name in worked_on(line, ir.effects(line)):
            self._flying.update(dict.fromkeys(frame.find(name).storages, work))
        for each in work.given:
            self._given.update(dict.fromkeys(set(each.storages) - set(self._flying), work))
        is_held = self._run.blocking == "start" and work.call.facts.kind is not Kind.MESSAGES
        if is_held and work.missing():
            self._pause(lambda: not work.missing(), (work,))

    def _work(self, line: ir.ExternKernel, call: Call) -> Work:
        """Return what a line calls, without what it writes."""
        frame = self._rank.interpreter.frame
        refuse_unknown(call.facts, call.reduction)
        written = {s for n in ir.effects(line).writes for s in frame.find(n).storages}
        given = []
        for name in call.sent:
            buffer = frame.find(name)
            is_written = not written.isdisjoint(buffer.storages)
            given.append(Given(buffer.tensor.clone(), buffer.tensor, buffer.storages, is_written))
        rows, taken = (tuple(map(frame.dim, each)) for each in call.splits)
        call = replace(call, group=self._run.groups.of(call.group, self._rank.number))
        members = self._run.network.members(call.group)
        strays = [each.peer for each in call.messages if not 0 <= each.peer < len(members)]
        if self._rank.number not in members or strays:
            who = f"member {strays[0]}" if strays else f"rank {self._rank.number}"
            reason = f"{who} is not in group {call.group!r}, which has {named_ranks(members)}"
            raise mem.CallFailedError(call=line.op, reason=reason)
        reduction = f" '{call.reduction}'" if call.reduction else ""
        place = f"{call.facts.kind.value}{reduction} in {call.group!r} at {self._rank.place}"
        return Work(self._rank.number, call, place, given, (rows, taken))

    def _value(self, line: ir.ExternKernel, work: Work, written: Sequence[Tensor]) -> object:
        """Return what a call returns, before it holds anything."""
        found = [*written[-len(work.given) :]]
        if said := work.call.messages:
            pairs = zip(work.given, said, strict=True)
            found = [g.tensor.new_empty(0) if m.is_sent else g.tensor for g, m in pairs]
        elif not written:
            members = len(self._run.network.members(work.call.group))
            rows = sum(work.splits[1]) if work.splits[1] else None
            for each in work.given:
                size = size_of_result(work.call.facts.kind, each.then, members, rows)
                found.append(each.then.new_empty(size))
        schema = schema_of(self._rank.interpreter.program, line.op)
        return found if any("[" in each.suffix for each in schema.returns) else found[0]

    def _outs(
        self, line: ir.ExternKernel, work: Work, written: Sequence[Tensor]
    ) -> list[Tensor | None]:
        """Return where what comes of each tensor goes, if it goes anywhere."""
        if said := work.call.messages:
            pairs = zip(work.given, said, strict=True)
            return [None if m.is_sent else g.tensor for g, m in pairs]
        if written:
            return [*written[-len(work.given) :]]
        frame = self._rank.interpreter.frame
        made = {r.path: r.out for r in line.results if isinstance(r, ir.ResultBuffer)}
        names = [made.get((n,), made.get(())) for n in range(len(work.given))]
        return [None if name is None else frame.find(name).tensor for name in names]


def _own(program: ir.Program) -> ir.Program:
    """Return a program with values of its own, if it changes any."""
    if not any(constant.mutable for constant in program.constants.values()):
        return program
    return program.replace(data=copy.deepcopy(dict(program.data)))


def run_ranks(  # noqa: PLR0913 - what a caller may choose
    programs: Iterable[ir.Program],
    inputs: Iterable[Sequence[Any]],
    *,
    groups: GivenGroups | None = None,
    seed: int = 0,
    blocking: Blocking = "start",
    verify: bool = True,
    check_races: bool = False,
) -> list[tuple[Any, ...]]:
    """Run the programs of several ranks in this process, with real values, in random turns.

    Each rank runs as in :func:`interpret`, but for its collectives: these go through a network in
    this process, which needs no process group. Ranks take turns at random, some are slow for a
    while, and a collective comes to pass some time after all members have called it. What it
    writes holds the pattern of unwritten memory until then.

    Args:
        programs: One for each rank; the same one several times if ranks share it.
        inputs: The inputs of each rank. Each needs tensors of its own where they are written.
        groups: The ranks of each process group, as in :func:`wrapper_ir.verify_ranks`.
        seed: Draws the turns. The same one gives the same run.
        blocking: When a collective holds its rank, as in :func:`wrapper_ir.verify_ranks`.
        verify: Verify each program first. Ranks are not compared: what is wrong shows.
        check_races: Raise an error where a line works on memory that a collective still uses.
            Otherwise that shows in the results only.

    Returns:
        The results of each rank.

    Raises:
        RaceError: A line works on memory that a collective still uses; it names both lines.
        DeadlockError: Ranks wait forever; it says who waits for whom, at which lines.
        UnsupportedError: A program calls a collective that is not known here.
        WrapperIRError: As :func:`interpret` raises it. A note says on which rank.
    """
    every, given = checked_programs(programs, "run_ranks"), list(inputs)
    check_blocking(blocking)
    if len(given) != len(every):
        what = f"{len(given)} lists of inputs for {len(every)} programs"
        raise UnsupportedError(what=what, where="run_ranks", hint="each rank has its own")
    ranks = list(_ranks(every, given, verify=verify))
    settled = settled_groups(every, groups)
    whole = _Run(ranks, settled, seed, blocking, check_races=check_races)
    for rank in ranks:
        rank.interpreter.peers = rank.turns = Turns(whole, rank)
    return whole.go()


def _ranks(
    programs: Sequence[ir.Program], inputs: Sequence[Sequence[Any]], *, verify: bool
) -> Iterator[_Rank]:
    """Yield the ranks, ready to run. Those with the same program share its kernels."""
    kernels: dict[int, Mapping[Launch, Callable[..., None]]] = {}
    for number, (program, values) in enumerate(zip(programs, inputs, strict=True)):
        check_runnable(program, values, verify=verify)
        if id(program) not in kernels:
            kernels[id(program)] = called_kernels(program)
        yield _Rank(number, Interpreter(_own(program), kernels[id(program)]), values)
