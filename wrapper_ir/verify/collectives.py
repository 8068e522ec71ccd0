"""Collectives that run beside the program until it waits for them.

A functional collective starts work and returns; its results, and what it works on in place, hold
nothing certain before ``wait_tensor`` was given them, or a view of them. What it was given it may
still read until then, so that may be read and freed (an op holds its tensors itself), and neither
written nor given to another buffer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wrapper_ir.analysis.ops import begins_work, waits_for_work
from wrapper_ir.lines import effects
from wrapper_ir.verify import rules
from wrapper_ir.verify.storage import Storage
from wrapper_ir.verify.tables import shown

if TYPE_CHECKING:
    from wrapper_ir.lines import AnyLine, Effects, ExternKernel
    from wrapper_ir.verify.lifetimes import Lifetimes
    from wrapper_ir.verify.state import Place, State


@dataclass(frozen=True, slots=True, eq=False)
class _Work:
    """Work that an op has begun, and the storages that it reads."""

    op: str
    read: tuple[Storage, ...]


class Collectives:
    """The storages that a collective is still at work on."""

    def __init__(self, state: State, lifetimes: Lifetimes) -> None:
        self.state = state
        self.lifetimes = lifetimes
        self._writing: dict[Storage, _Work] = {}
        self._reading: dict[Storage, set[_Work]] = {}

    def check(self, line: AnyLine, found: Effects) -> None:
        """Checks that a line touches nothing that is still worked on, or notes that it waits."""
        if not self._writing:
            return
        waits = waits_for_work(line)
        for name in dict.fromkeys((*found.reads, *found.writes, *found.takes)):
            for storage in self._storages(name):
                work = self._writing.get(storage)
                if work is not None:
                    if not waits:
                        self._report(name, work)
                    self._end(storage, work)
        for name in dict.fromkeys((*found.writes, *found.takes)):
            for storage in self._storages(name):
                for work in self._reading.pop(storage, ()):
                    self._report(name, work)

    def check_result(self, name: str, place: Place) -> None:
        """Checks that a result is not still worked on."""
        for storage in self._storages(name):
            work = self._writing.get(storage)
            if work is not None:
                self._report(name, work, place)

    def start(self, line: ExternKernel) -> None:
        """Notes what a collective works on from here on; its results are defined already."""
        if begins_work(line):
            found = effects(line)
            written = [each for name in found.written for each in self._storages(name)]
            given = [each for name in found.reads for each in self._storages(name)]
            work = _Work(line.op, tuple(each for each in given if each not in written))
            self._writing.update(dict.fromkeys(written, work))
            for storage in work.read:
                self._reading.setdefault(storage, set()).add(work)

    def _end(self, storage: Storage, work: _Work) -> None:
        """Forgets work that was waited for; one wait may stand for all results of an op."""
        del self._writing[storage]
        for each in work.read:
            self._reading.get(each, set()).discard(work)

    def _storages(self, name: str) -> tuple[Storage, ...]:
        buffer = self.lifetimes.buffers.get(name)
        return () if buffer is None else buffer.storages

    def _report(self, name: str, work: _Work, place: Place | None = None) -> None:
        self.state.report(rules.NOT_WAITED_FOR, place=place, name=name, op=shown(work.op))
