"""The calls of a program, their operands, and the filter of a debug printer."""

from __future__ import annotations

import difflib
import fnmatch
import re
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeGuard

import sympy

import wrapper_ir.lines as ir
from wrapper_ir.analysis.collectives import begins_work, waits_for_work, worked_on
from wrapper_ir.analysis.liveness import Life, Liveness
from wrapper_ir.analysis.ops import overwritten
from wrapper_ir.lines.traits import allocates_one, calls_op, is_slice, own_roles

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from wrapper_ir.passes.printer import DebugPrinter


# Operands with defined contents, the only ones worth showing.
#
# Uninitialized memory holds different bytes in each run, yet a call may be declared to read it:
# ``aten::zero_`` takes its argument as in-out, and a kernel that updates a few elements of a result
# may be the one that completes it. A result assembled from parts is one storage, and different
# calls write the parts through views. What a collective writes is there after the wait for it.


class Operands:
    """The buffers that each call of a program reads and writes."""

    def __init__(self, program: ir.Program) -> None:
        self._program = program
        self._unseen: dict[tuple[ir.Path, str], set[str]] = {}
        for path, name, region in ir.walk_regions(program):
            _Walk(program, region, self._unseen).learn(region, path, name)

    def reads(self, path: ir.Path, line: ir.AnyLine) -> list[str]:
        """Return the initialized buffers that a call reads, without duplicates."""
        if waits_for_work(line):
            return []
        call_effects = ir.effects(line, self._program)
        unseen = {*self._unseen.get((path, "before"), ()), *overwritten(call_effects)}
        return list(dict.fromkeys(name for name in call_effects.reads if name not in unseen))

    def writes(self, path: ir.Path, line: ir.AnyLine) -> list[str]:
        """Return the buffers that a call writes or returns, if they are initialized after it."""
        unseen = self._unseen.get((path, "after"), ())
        return [name for name in _done_by(line, self._program) if name not in unseen]


def _done_by(line: ir.AnyLine, program: ir.Program) -> list[str]:
    """Return the buffers whose contents are there after a call, unlike before."""
    found = ir.effects(line, program)
    unfinished = worked_on(line, found) if begins_work(line) else ()
    waited = found.reads if waits_for_work(line) else ()
    return [name for name in dict.fromkeys((*waited, *found.written)) if name not in unfinished]


class _Walk:
    """A walk over one region that tracks which part of each storage has been written."""

    def __init__(
        self, program: ir.Program, region: ir.Region, unseen: dict[tuple[ir.Path, str], set[str]]
    ) -> None:
        self._program = program
        self._unseen = unseen
        self._lives = Liveness(region, program)
        self._written: dict[Life, Written] = {}
        """Storages that begin in this region; all others count as written."""

    def learn(self, region: ir.Region, path: ir.Path, name: str) -> None:
        """Record the uninitialized operands of each call in a region."""
        for index, line in enumerate(region.body):
            line_effects = ir.effects(line, self._program)
            at = path.then(name, index)
            if line_effects.calls:
                self._note(at, "before", line_effects.reads)
            self._follow(line, line_effects)
            if line_effects.calls:
                self._note(at, "after", _done_by(line, self._program))

    def _note(self, path: ir.Path, when: str, names: list[str]) -> None:
        unseen = {name for name in names if not self._is_written(name)}
        if unseen:
            self._unseen[path, when] = unseen

    def _is_written(self, name: str) -> bool:
        layout = self._program.layout(name)
        return all(written.covers(layout) for written in self._of(name))

    def _follow(self, line: ir.AnyLine, line_effects: ir.Effects) -> None:
        if allocates_one(line) or is_slice(line):  # slices are tracked apart from their pool
            is_zeroed = allocates_one(line) and line.zeroed
            written = Written(self._program.layout(line.out), all_=is_zeroed)
            self._written.update(dict.fromkeys(self._lives.of(line.out), written))
        elif line_effects.calls:
            self._follow_writes(line, line_effects)
        elif ir.Role.DEFINE not in own_roles(line):
            for life in self._lives.storages((*line_effects.writes, *line_effects.uses)):
                self._written.pop(life, None)

    def _follow_writes(self, line: ir.AnyLine, call_effects: ir.Effects) -> None:
        """Record a call's writes.

        An operand that the call also reads may be updated in part only, so it counts as written
        just if the op overwrites all of it, or if nothing was there to read.
        """
        filled = overwritten(call_effects)
        received = worked_on(line, call_effects) if begins_work(line) else ()
        for name in dict.fromkeys((*call_effects.writes, *received)):
            for written in self._of(name):
                if name not in call_effects.reads or name in filled or written.nothing:
                    written.write(self._program.layout(name))

    def _of(self, name: str) -> list[Written]:
        """Return the records of the tracked storages that a name may be a view of."""
        lives = self._lives.storages((name,))
        return [self._written[life] for life in lives if life in self._written]


class Written:
    """The written part of one storage.

    With ``all_``, all of it is written from the start.
    """

    def __init__(self, layout: ir.Layout, *, all_: bool = False) -> None:
        self._layout = layout
        self._all = all_
        self._runs: list[tuple[int, int]] = []
        """Contiguous written ranges, as sorted and disjoint pairs of start and end in bytes."""
        self._others: set[ir.Layout] = set()
        """Written views with gaps or with unknown sizes."""

    @property
    def nothing(self) -> bool:
        """True if not a single byte is written."""
        return not (self._all or self._runs or self._others)

    def covers(self, layout: ir.Layout) -> bool:
        """Return whether a view is completely written."""
        if self._all or layout in self._others:
            return True
        run = _run(layout)
        return run is not None and any(a <= run[0] and run[1] <= b for a, b in self._runs)

    def write(self, layout: ir.Layout) -> None:
        """Record that a view is completely written."""
        if self._all:
            return
        run = _run(layout)
        if run is None:
            self._others.add(layout)
        else:
            self._runs = _joined([*self._runs, run])
        self._all = layout == self._layout or self._is_covered()

    def _is_covered(self) -> bool:
        """Return whether the parts add up to the whole, if views with gaps are disjoint."""
        parts = [b - a for a, b in self._runs] + [_bytes(layout) for layout in self._others]
        return bool(sympy.expand(sum(parts) - self._layout.nbytes) == 0)


def _bytes(layout: ir.Layout) -> ir.Dim:
    """Return the size of a view's elements in bytes, without gaps."""
    return layout.numel * layout.dtype.itemsize


def _run(layout: ir.Layout) -> tuple[int, int] | None:
    """Return the start and end of a view in bytes, if it is contiguous and of known size."""
    if not layout.is_static or layout.extent != layout.numel:
        return None
    start = int(layout.offset) * layout.dtype.itemsize
    return start, start + int(layout.nbytes)


def _joined(runs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(runs):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


class NoCallMatchesWarning(UserWarning):
    """A debug filter that matches nothing, usually because a name is misspelt."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call to a kernel or op; ``number`` is its position among all in text order, from 0."""

    number: int
    path: ir.Path
    line: ir.KernelCall | ir.ExternKernel

    @property
    def name(self) -> str:
        """The name of the kernel, or the qualified name of the op."""
        (name,) = ir.effects(self.line).calls
        return name

    @property
    def is_op(self) -> bool:
        """True for a library op, False for a kernel of the program."""
        return calls_op(self.line)

    @property
    def label(self) -> str:
        """The name of the call's probes: its number in four digits and its own name."""
        return f"{self.number:04d} {self.name}"


def is_call(line: ir.AnyLine) -> TypeGuard[ir.KernelCall | ir.ExternKernel]:
    """Return whether a line calls a kernel or an op."""
    return bool(ir.effects(line).calls)


def calls_of(program: ir.Program) -> Iterator[Call]:
    """Yield every call of a program, including those in regions."""
    number = 0
    for path, line in ir.walk(program):
        if is_call(line):
            yield Call(number, path, line)
            number += 1


def select(program: ir.Program, printer: DebugPrinter) -> tuple[Call, ...]:
    """Return the calls that a debug printer selects; warn if there are none.

    Warns:
        NoCallMatchesWarning: No call meets all conditions, or no buffer matches.
    """
    calls = tuple(calls_of(program))
    chosen = tuple(call for call in calls if _is_chosen(call, program, printer))
    if calls and not chosen:
        warnings.warn(_explain(calls, program, printer), NoCallMatchesWarning, stacklevel=3)
    names = [*program.buffers, *program.qualified_names.values()]
    if names and not matches(printer.buffers, names):
        words = f"debug: no buffer matches {printer.buffers!r}{_near(printer.buffers, names)}"
        warnings.warn(words, NoCallMatchesWarning, stacklevel=3)
    return chosen


def matches(pattern: str, names: Iterable[str]) -> bool:
    """Return whether any name matches a pattern: comma-separated globs, or ``re:`` and a regex."""
    if pattern == "*":
        return True
    names = list(names)
    if pattern.startswith("re:"):
        expression = re.compile(pattern[3:])
        return any(expression.search(name) for name in names)
    globs = [glob.strip() for glob in pattern.split(",")]
    return any(fnmatch.fnmatchcase(name, glob) for name in names for glob in globs)


def _is_chosen(call: Call, program: ir.Program, printer: DebugPrinter) -> bool:
    return (
        printer.has_call(call.number)
        and matches(printer.kernels, _names(call))
        and matches(printer.ops, _ops(call, program))
        and matches(printer.source, _places(call, program))
    )


def _names(call: Call) -> list[str]:
    """Return the names that match a call.

    An op matches with or without namespace and overload, and as it is spelled in Python.
    """
    names = [call.name]
    if call.is_op:
        names.append(call.name.partition(".")[0])
        names += [name.replace("::", ".") for name in names]
        names += [name.partition("::")[2] for name in names[:2]]
    return names


def _ops(call: Call, program: ir.Program) -> list[str]:
    origin = program.origin_of(call.line)
    own = _names(call) if call.is_op else []
    return [*own, *(origin.ops if origin is not None else ())]


def _places(call: Call, program: ir.Program) -> list[str]:
    """Return the module path, and ``file.py:12`` of each frame with and without folder and line."""
    origin = program.origin_of(call.line)
    places = []
    if origin is not None and origin.module:
        places.append(origin.module)
    for frame in origin.frames if origin is not None else ():
        for file in (frame.file, re.split(r"[\\/]", frame.file)[-1]):
            places += [f"{file}:{frame.line}", file]
    return places


def _explain(calls: tuple[Call, ...], program: ir.Program, printer: DebugPrinter) -> str:
    conditions = [
        (option, pattern, names)
        for option, pattern, names in (
            ("kernels", printer.kernels, [call.name for call in calls]),
            ("ops", printer.ops, [op for call in calls for op in _ops(call, program)]),
            ("source", printer.source, [p for call in calls for p in _places(call, program)]),
        )
        if pattern != "*"
    ]
    for option, pattern, names in conditions:
        if not matches(pattern, names):
            return f"debug: no call matches {option}={pattern!r}{_near(pattern, names)}"
    return f"debug: none of the program's {len(calls)} calls meets all conditions of the filter"


def _near(pattern: str, names: Iterable[str]) -> str:
    known = sorted(set(names))
    word = pattern.removeprefix("re:").strip("*")
    similar = difflib.get_close_matches(word, known, n=3, cutoff=0.3) or known[:3]
    return f"; close matches: {', '.join(map(repr, similar))}" if similar else ""
