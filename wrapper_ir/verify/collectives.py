"""Collectives that run beside the program until it waits for them.

A functional collective starts work and returns; its results, and what it works on in place, hold
nothing certain before ``wait_tensor`` was given them, or a view of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from wrapper_ir.lines import ExternKernel, effects
from wrapper_ir.verify import rules
from wrapper_ir.verify.kernels import shown

if TYPE_CHECKING:
    from wrapper_ir.lines import AnyLine, Effects
    from wrapper_ir.verify.lifetimes import Lifetimes
    from wrapper_ir.verify.state import Place, State
    from wrapper_ir.verify.storage import Storage

_NAMESPACE: Final = "_c10d_functional::"

_STARTERS: Final = tuple(
    _NAMESPACE + name
    for name in (
        "all_gather_into_tensor",
        "all_reduce",
        "all_to_all_single",
        "broadcast",
        "reduce_scatter_tensor",
    )
)
"""What the names of ops begin with that start work, in place or not, one by one or coalesced."""

_WAIT: Final = f"{_NAMESPACE}wait_tensor"
"""What the names of ops begin with that wait."""


class Collectives:
    """The storages that a collective is still at work on."""

    def __init__(self, state: State, lifetimes: Lifetimes) -> None:
        self.state = state
        self.lifetimes = lifetimes
        self._at_work: dict[Storage, str] = {}

    def check(self, line: AnyLine, found: Effects) -> None:
        """Checks that a line touches nothing that is still worked on, or notes that it waits."""
        if not self._at_work:
            return
        waits = isinstance(line, ExternKernel) and line.op.startswith(_WAIT)
        for name in dict.fromkeys((*found.reads, *found.writes, *found.takes)):
            for storage in self._storages(name):
                if not waits:
                    self._report(name, storage)
                self._at_work.pop(storage, None)

    def check_result(self, name: str, place: Place) -> None:
        """Checks that a result is not still worked on."""
        for storage in self._storages(name):
            self._report(name, storage, place)

    def start(self, line: ExternKernel) -> None:
        """Notes what a collective works on from here on; its results are defined already."""
        if line.op.startswith(_STARTERS):
            for name in effects(line).written:
                for storage in self._storages(name):
                    self._at_work[storage] = line.op

    def _storages(self, name: str) -> tuple[Storage, ...]:
        buffer = self.lifetimes.buffers.get(name)
        return () if buffer is None else buffer.storages

    def _report(self, name: str, storage: Storage, place: Place | None = None) -> None:
        op = self._at_work.get(storage)
        if op is not None:
            self.state.report(rules.NOT_WAITED_FOR, place=place, name=name, op=shown(op))
