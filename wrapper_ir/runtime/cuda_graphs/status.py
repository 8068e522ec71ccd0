"""Status of captured functions: how many calls were replayed, and why others were not."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from wrapper_ir.runtime.living import Living

__all__ = ["GraphStatus", "Journal", "statuses"]

_logger: Final = logging.getLogger("wrapper_ir.cuda_graphs")


@dataclass(frozen=True, slots=True)
class GraphStatus:
    """Status of a function's calls so far.

    Attributes:
        program: The program's name.
        graphs: Captured graphs that are kept.
        captures: Graphs that were captured, those that were dropped again included.
        replays: Calls that replayed a graph.
        plain: Calls that ran the program itself, the first one of each kind included.
        reasons: Why calls ran the program itself, with how many did; the first calls, which warm
            up, need no reason.
        refused: Whether no call will be captured any more.
    """

    program: str
    graphs: int
    captures: int
    replays: int
    plain: int
    reasons: Mapping[str, int]
    refused: bool


class Journal:
    """Counts what becomes of a function's calls.

    Args:
        program: The program's name.
        reasons: Why no call can be captured, where that is known from the beginning.
    """

    def __init__(self, program: str, reasons: tuple[str, ...] = ()) -> None:
        self.program = program
        self.captures = self.replays = self.plain = 0
        self.refused = reasons
        self._reasons: dict[str, int] = {}

    def refuse(self, reason: str) -> None:
        """Note that no call will be captured any more."""
        self.refused = (reason,)

    def ran(self, *reasons: str) -> None:
        """Note a call that ran the program itself, and why; the first of a kind is logged."""
        self.plain += 1
        for reason in reasons:
            count = self._reasons[reason] = self._reasons.get(reason, 0) + 1
            if count == 1:
                text = "calls of '%s' are not replayed as a CUDA graph: %s"
                _logger.warning(text, self.program, reason)

    def status(self, graphs: int) -> GraphStatus:
        """Return the status of calls so far."""
        counts = (graphs, self.captures, self.replays, self.plain)
        return GraphStatus(self.program, *counts, dict(self._reasons), bool(self.refused))


class _Reporting(Protocol):
    @property
    def status(self) -> GraphStatus: ...


everything: Final[Living[_Reporting]] = Living()
"""All functions of the process."""


def statuses() -> list[GraphStatus]:
    """Return the status of every captured function of the process, by name."""
    return sorted((each.status for each in everything.all()), key=lambda status: status.program)
