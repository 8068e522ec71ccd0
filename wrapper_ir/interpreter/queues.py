"""Streams in random legal order: what a line does on a stream comes to pass some time after it.

Each stream is a queue of jobs. A job comes to pass after those before it on its stream and those
that its stream was told to wait for; which one of several that may is drawn. If it comes to pass
before an earlier line's job that works on the same memory, and one of the two writes, then nothing
orders the two lines: that is a race, and both lines are named. Until a job has come to pass, memory
that it makes holds the fill pattern.

What a collective starts goes on beside its stream, in a queue of its group: behind what its stream
had to do before, and done before what comes after a wait for it.

All devices are the host here, and it is alone. A kernel that it cannot run, and a collective, is
replaced by one that writes a mix of all that it reads, so that what is read too early shows in
results too.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

import torch
from torch import Tensor

import wrapper_ir.lines as ir
from wrapper_ir.analysis.collectives import Group, begins_work, call_of, worked_on
from wrapper_ir.analysis.ordering import (
    CALLER,
    HOST,
    comes_back,
    ordered_by_caller,
    stream_of,
)
from wrapper_ir.errors import WrapperIRError
from wrapper_ir.interpreter import memory as mem
from wrapper_ir.interpreter.calls import byte_mask, is_plain
from wrapper_ir.lines.args import buffers_in
from wrapper_ir.lines.base import Runs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wrapper_ir.interpreter.frame import Frame

#: How soon a job comes to pass that may: at once, some time later, or when somebody waits for it.
_HASTE: Final = (1.0, 0.3, 0.0)

#: How often a job is as fast as its stream mostly is.
_STEADY: Final = 0.8


class RaceError(WrapperIRError):
    """Two lines work on the same memory, one of them writes, and nothing orders them.

    Fields: the buffer's ``name``, the ``line`` that came too soon and the ``other`` one, each with
    what it does.
    """

    code = "WIR2413"
    template = "%{name}: {line} may come before {other}, though it is later in the program"
    default_hint = "have the later line's stream wait for an event behind the earlier one"


class Touched(NamedTuple):
    """Memory that a job reads or writes."""

    name: str
    tensor: Tensor
    is_written: bool
    verb: str = ""

    @property
    def doing(self) -> str:
        """What is done with the memory."""
        return self.verb or ("write" if self.is_written else "read")


@dataclass(eq=False)
class Job:
    """What a line does on a stream, some time after it."""

    stream: int
    place: str
    """The line, and its source."""
    path: ir.Path
    run: Callable[[], None]
    touched: tuple[Touched, ...] = ()
    needs: tuple[Job, ...] = ()
    haste: float = 0.0
    is_done: bool = False

    def says(self, touched: Touched) -> str:
        """Describe what it does with memory."""
        if not self.path:
            return self.place
        where = f"on stream {self.stream}" if self.stream >= CALLER else "by the collective there"
        return f"the {touched.doing} at {self.place} {where}"

    def may_run(self) -> bool:
        """Return whether all that it needs has come to pass."""
        return all(each.is_done for each in self.needs)


@dataclass(eq=False)
class Queues:
    """The jobs of one run that have not come to pass."""

    program: ir.Program
    random: random.Random
    pending: list[Job] = field(default_factory=list)
    """In the order of their lines."""
    _last: dict[int, Job] = field(default_factory=dict)
    """The last job of each stream."""
    _events: dict[int, Job] = field(default_factory=dict)
    _work: dict[mem.Storage, Job] = field(default_factory=dict)
    """What collectives have started, by the memory that it writes."""
    _groups: dict[Group, int] = field(default_factory=dict)
    """The queues of groups, whose numbers are below those of streams."""
    _streams: dict[mem.Storage, int] = field(default_factory=dict)
    """The streams that memory was allocated on."""
    _hastes: dict[int, float] = field(default_factory=dict)
    """How fast each stream mostly is in this run."""

    # Lines.

    def before(self, line: ir.AnyLine, frame: Frame, path: ir.Path) -> None:
        """Let jobs come to pass before a line, and have it wait for what it waits for."""
        self._advance()
        if line.runs is Runs.HOST and ir.effects(line).reads:
            self.finish(CALLER)  # what the host reads, the caller's stream has computed
            self._check(self._job(line, frame, path, lambda: None))

    def takes(self, line: ir.AnyLine, path: ir.Path) -> bool:
        """Return whether a line's work is put on a stream; in regions it is done at once."""
        on_device = getattr(line, "device", ir.CPU) != ir.CPU
        return on_device and len(path) == 1 and stream_of(line) is not None

    def put(self, line: ir.AnyLine, frame: Frame, path: ir.Path, run: Callable[[], None]) -> None:
        """Put a line's work on its stream, or beside it."""
        job = self._job(line, frame, path, run)
        if begins_work(line):
            self._begin_work(job, line, frame)
            return
        self._enter(job)
        if ir.traits.calls_op(line) and comes_back(line, self.program):
            self._finish(job)

    def _begin_work(self, job: Job, line: ir.AnyLine, frame: Frame) -> None:
        """Put what a collective starts in the queue of its group."""
        call = call_of(self.program, line)
        group = "" if call is None else call.group
        if job.stream in self._last:
            job.needs = (self._last[job.stream],)
        job.stream = self._groups.setdefault(group, HOST - 1 - len(self._groups))
        self._enter(job)
        for name in worked_on(line, ir.effects(line)):
            self._work.update(dict.fromkeys(frame.find(name).storages, job))

    def wait_for_work(self, line: ir.ExternKernel, frame: Frame, path: ir.Path) -> None:
        """Have a line's stream wait for what collectives have started."""
        storages = {s for a in buffers_in(line.args) for s in frame.find(a.buffer).storages}
        works = dict.fromkeys(self._work.pop(s) for s in storages if s in self._work)
        self._mark(line.stream, path, tuple(works))

    def now(self, line: ir.AnyLine, frame: Frame, path: ir.Path) -> None:
        """Wait until a line's stream gets to it, because it is carried out at once."""
        stream = self.stream_of(line)
        if stream is not None:
            self.finish(stream)
        self._check(self._job(line, frame, path, lambda: None))

    def stream_of(self, line: ir.AnyLine) -> int | None:
        """Return the stream of a line that works on a device; None for the host's work."""
        if getattr(line, "device", None) == ir.CPU:
            return None
        return stream_of(line)

    def record(self, event: int, stream: int, path: ir.Path) -> None:
        """Set an event behind all work on a stream."""
        self._events[event] = self._mark(stream, path, ())

    def wait(self, event: int, stream: int | None, path: ir.Path) -> None:
        """Have a stream, or the host, wait for an event."""
        found = self._events.get(event)
        if found is None:
            return  # the user recorded it before
        if stream is None:
            self._finish(found)
        else:
            self._mark(stream, path, (found,))

    def synchronize(self, device: ir.Device) -> None:
        """Have the host wait for the streams of a device."""
        self.finish(CALLER)
        for number, stream in enumerate(self.program.streams, start=1):
            if stream.device == device:
                self.finish(number)

    # Memory.

    def allocate(
        self, storage: mem.Storage, stream: int, path: ir.Path, run: Callable[[], None]
    ) -> None:
        """Note the stream that memory is for, and put what fills it on that."""
        self._streams[storage] = stream
        touched = Touched(storage.owner, whole(storage), is_written=True, verb="allocate")
        self._enter(Job(stream, self._named(path), path, run, (touched,)))

    def end(self, storage: mem.Storage, after: Sequence[int], path: ir.Path) -> None:
        """Put the end of memory on the stream that it is for, behind others that still use it."""
        if storage.is_object or storage.kind is not mem.Kind.OWNED or storage.is_held:
            return
        needs = tuple(self._last[each] for each in after if each in self._last)
        touched = Touched(storage.owner, whole(storage), is_written=True, verb="end")
        stream = self._streams.get(storage, CALLER)
        run = lambda: mem.poison(storage)  # noqa: E731 - it is short
        self._enter(Job(stream, self._named(path), path, run, (touched,), needs))

    def note(self, storage: mem.Storage, stream: int) -> None:
        """Note the stream that memory of a result is for."""
        self._streams[storage] = stream

    def inherit(self, heir: mem.Storage, donor: mem.Storage) -> None:
        """Note that memory goes on under another name."""
        self._streams[heir] = self._streams.get(donor, CALLER)

    # The beginning and the end.

    def begin(self, held: Iterable[tuple[str, Tensor]]) -> None:
        """Put what the caller did before the program on its stream.

        Streams of the user's have waited for that, as they would have to without us, but not in a
        backward pass.
        """
        touched = tuple(Touched(name, each, is_written=True) for name, each in held)
        start = Job(CALLER, "what the caller did before", ir.Path(), lambda: None, touched)
        self._enter(start)
        for number in sorted(ordered_by_caller(self.program)):
            self._mark(number, ir.Path(), (start,))

    def leave(self, held: Iterable[tuple[str, Tensor]]) -> None:
        """Check that nothing is still at work on what the caller holds, and finish all work."""
        self.finish(CALLER)
        ordered = ordered_by_caller(self.program)
        touched = tuple(Touched(name, each, is_written=True) for name, each in held)
        end = Job(CALLER, "what the caller does next", ir.Path(), lambda: None, touched)
        self._check(end, among=[job for job in self.pending if job.stream not in ordered])
        while self.pending:
            self._land(self.random.choice([each for each in self.pending if each.may_run()]))

    # Jobs.

    def finish(self, stream: int) -> None:
        """Let the work on a stream so far come to pass."""
        if stream in self._last:
            self._finish(self._last[stream])

    def _finish(self, job: Job) -> None:
        """Let a job come to pass, and what it needs before."""
        while not job.is_done:
            self._advance()
            todo = job
            while not todo.may_run():
                todo = self.random.choice([each for each in todo.needs if not each.is_done])
            if not todo.is_done:
                self._land(todo)

    def _advance(self) -> None:
        """Let some jobs come to pass, or none."""
        while ready := [each for each in self.pending if each.may_run()]:
            lucky = [each for each in ready if self.random.random() < each.haste]
            if not lucky:
                return
            self._land(self.random.choice(lucky))

    def _land(self, job: Job) -> None:
        """Let a job come to pass."""
        self._check(job)
        self.pending.remove(job)
        job.run()
        job.is_done = True

    def _enter(self, job: Job) -> None:
        """Put a job behind the work on its stream."""
        before = (self._last[job.stream],) if job.stream in self._last else ()
        job.needs = (*before, *job.needs)
        usual = self._hastes.setdefault(job.stream, self.random.choice(_HASTE))
        job.haste = usual if self.random.random() < _STEADY else self.random.choice(_HASTE)
        self._last[job.stream] = job
        self.pending.append(job)

    def _mark(self, stream: int, path: ir.Path, needs: tuple[Job, ...]) -> Job:
        job = Job(stream, self._named(path), path, lambda: None, (), needs)
        self._enter(job)
        return job

    def _job(self, line: ir.AnyLine, frame: Frame, path: ir.Path, run: Callable[[], None]) -> Job:
        stream = self.stream_of(line)
        touched = tuple(_touched_by(line, frame))
        return Job(CALLER if stream is None else stream, self._named(path), path, run, touched)

    def _named(self, path: ir.Path) -> str:
        source = self.program.source_of(ir.line_at(self.program, path)) if path else ""
        return f"{path} ({source})" if source else str(path)

    def _check(self, job: Job, among: Sequence[Job] | None = None) -> None:
        """Check that no earlier job works on the memory of one that comes to pass."""
        for other in self.pending if among is None else among:
            if other is job:
                break
            for ours in job.touched:
                for theirs in other.touched:
                    if (ours.is_written or theirs.is_written) and _meet(ours, theirs):
                        raise self._race(job, ours, other, theirs)

    def _race(self, job: Job, ours: Touched, other: Job, theirs: Touched) -> RaceError:
        line, earlier = job.says(ours), other.says(theirs)
        origin = self.program.place_of(ir.line_at(self.program, job.path)) if job.path else None
        return RaceError(
            name=ours.name, line=line, other=earlier, path=job.path or None, origin=origin or None
        )


def whole(storage: mem.Storage) -> Tensor:
    """Return the bytes of a storage."""
    return mem.view(storage, torch.uint8, [storage.nbytes], [1], 0)


def _touched_by(line: ir.AnyLine, frame: Frame) -> Iterator[Touched]:
    """Yield the memory that a line works on, of what has a name by now."""
    found = ir.effects(line, frame.program)
    viewed = {alias.source for alias in found.aliases}
    reads = [name for name in found.reads if name not in viewed and name not in found.writes]
    for names, is_written in ((reads, False), (worked_on(line, found), True)):
        for name in names:
            buffer = frame.buffers.get(name) or frame.constants.get(name)
            if buffer is not None and is_plain(buffer.tensor):
                yield Touched(name, buffer.tensor, is_written)


def _meet(one: Touched, other: Touched) -> bool:
    """Return whether two pieces of memory share a byte."""
    a, b = one.tensor, other.tensor
    if not (a.numel() and b.numel()) or mem.memory_of(a) != mem.memory_of(b):
        return False
    starts, ends = zip(*map(_span, (a, b)), strict=True)
    if max(starts) >= min(ends):
        return False
    if a.is_contiguous() and b.is_contiguous():
        return True
    masks = [byte_mask(each) for each in (a, b)]
    return bool((masks[0] & masks[1]).any())


def _span(tensor: Tensor) -> tuple[int, int]:
    item, start = tensor.element_size(), int(tensor.storage_offset())
    steps = sum((n - 1) * step for n, step in zip(tensor.shape, tensor.stride(), strict=True))
    return start * item, (start + steps + 1) * item


def stand_in(definition: ir.KernelDefinition) -> Callable[..., None]:
    """Return a function that writes to a kernel's buffers a mix of what it reads."""
    params = definition.params

    def run(_: object, *args: object) -> None:
        read, written = [], []
        for param, arg in zip(params, args, strict=True):
            if not (isinstance(param, ir.BufferParam) and isinstance(arg, Tensor)):
                continue
            if param.access.reads:
                read.append(arg)
            if param.access.writes:
                written.append(arg)
        mix(read, written)

    return run


def mix(read: Iterable[Tensor], written: Iterable[Tensor]) -> None:
    """Write to each of some tensors a number that depends on all elements of others."""
    numbers = torch.stack([torch.ones((), dtype=torch.float64), *map(_number, read)])
    total = numbers.mul(torch.arange(1.0, len(numbers) + 1)).sum()
    for position, each in enumerate(written):
        each.copy_((total + position).remainder(97).to(each.dtype).expand_as(each))


def _number(tensor: Tensor) -> Tensor:
    """Return a number that depends on all elements of a tensor."""
    values = tensor.reshape(-1).view(torch.uint8) if tensor.numel() else tensor.new_zeros(1)
    weights = torch.arange(1, values.numel() + 1).remainder(251)
    return (values.to(torch.int64) * weights).sum().remainder(9973).to(torch.float64)
