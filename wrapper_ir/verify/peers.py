"""Memory that peers address: who may access it, and until when.

An op of symmetric memory lets other ranks read or write memory of this one. Most such ops are done
on all ranks when they are done here. After an op of one side, a peer may go on until all members
of a group next take part in something.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from wrapper_ir.analysis.collectives import is_collective, leaves_peers_running, shared_with_peers
from wrapper_ir.lines.memory import MemoryKind
from wrapper_ir.lines.traits import op_of
from wrapper_ir.verify import rules
from wrapper_ir.verify.calls import shown
from wrapper_ir.verify.lifetimes import Lifetimes
from wrapper_ir.verify.state import Place, State, Storage

if TYPE_CHECKING:
    from wrapper_ir.lines import Allocate, AllocatePool, AnyLine, Effects


def is_for_peers(line: Allocate | AllocatePool) -> bool:
    """Return whether a line allocates memory that peers address."""
    return line.memory is MemoryKind.SYMMETRIC


@dataclass(slots=True, eq=False)
class Peers:
    """Checks of memory that ops let peers access."""

    state: State
    lifetimes: Lifetimes
    _accessed: dict[Storage, tuple[str, Place]] = field(default_factory=dict)
    """Storages that peers may still access, with the op that let them."""

    def check(self, line: AnyLine, found: Effects) -> None:
        """Check a line, before what it ends has ended."""
        is_op = is_collective(line)
        shared = shared_with_peers(self.state.program, line) if is_op else ()
        for name in shared:
            self._check_memory(line, name)
        goes_on = is_op and leaves_peers_running(line)
        if is_op and not goes_on:
            self._accessed.clear()
        if self._accessed and not goes_on:
            self._check_use(found)
        if goes_on:
            for name in shared:
                for storage in self.lifetimes.storages(name):
                    self._accessed[storage] = op_of(line), self.state.here()

    def _check_memory(self, line: AnyLine, name: str) -> None:
        """Check that peers can address a buffer."""
        for storage in self.lifetimes.storages(name):
            if storage.allocation and not storage.for_peers:
                part = "a slice of other memory" if storage.slot is not None else "other memory"
                why = f"which is {part}: %{storage.allocation}"
                self.state.report(rules.NOT_FOR_PEERS, op=shown(op_of(line)), name=name, why=why)

    def _check_use(self, found: Effects) -> None:
        verbs = {"written": found.writes, "reused": found.takes, "freed": found.kills}
        for verb, names in verbs.items():
            for name in names:
                for storage in self.lifetimes.storages(name):
                    if storage in self._accessed:
                        op, place = self._accessed.pop(storage)
                        fault = partial(self.state.report, rules.PEERS_MAY_ACCESS, name=name)
                        fault(verb=verb, op=shown(op), at=f" at {place}", about=place)
