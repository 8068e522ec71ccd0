"""A function that is captured in pieces: what lies between them runs as it is.

Results of a piece that only the rest of the call sees stay in the graph's memory, where the next
piece finds them at the same addresses. So calls take turns as a whole: the next one begins when all
of the last one is under way, and its graphs wait for that on the GPU.

Each piece has a pool of memory of its own. A call may combine any graph of one piece with any of
another, whichever was captured first; in a common pool the one might work in memory where the other
has left its results.
"""

from __future__ import annotations

import functools
import threading
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from wrapper_ir.runtime.cuda_graphs.captured import CudaGraphs
from wrapper_ir.runtime.cuda_graphs.recorder import CudaRecorder
from wrapper_ir.runtime.cuda_graphs.status import GraphStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

    from wrapper_ir.runtime.cuda_graphs.recorder import Recorder

__all__ = ["CutGraphs"]


class CutGraphs:
    """Captures the pieces of a function, and has its calls take turns.

    Args:
        program: The program's name.
        device: Its GPU.
        limit: How many graphs a piece keeps: one for each set of sizes and numbers.
        checks: Whether to compare layouts of parameters in every call, too.
        recorder: Makes what captures a piece.

    It is a decorator of the function, which takes the list of inputs and empties it.
    """

    def __init__(
        self,
        program: str,
        device: torch.device | None = None,
        *,
        limit: int = 8,
        checks: bool = True,
        recorder: Callable[[], Recorder] | None = None,
    ) -> None:
        self._program = program
        self._limit = limit
        self._checks = checks
        self._recorder = recorder or partial(CudaRecorder, device or torch.device("cuda", 0))
        self._pieces: list[CudaGraphs] = []
        self._turn = threading.RLock()

    def piece(
        self,
        place: str,
        *,
        writes: Sequence[int] = (),
        settled: Sequence[int] = (),
        shared: Sequence[int] = (),
        constants: Callable[[], list[Tensor]] = list,
    ) -> CudaGraphs:
        """Make what captures one piece: a decorator of its function.

        Args:
            place: Where in the program it is.
            writes: Positions of inputs that it writes to.
            settled: Positions of inputs that come from other pieces, so that they stay where they
                are once those are captured.
            shared: Positions of results that no caller sees.
            constants: Gives its constants on the GPU as they are now.
        """
        made = CudaGraphs(
            f"{self._program} at {place}",
            writes=writes,
            settled=settled,
            shared=shared,
            constants=constants,
            limit=self._limit,
            checks=self._checks,
            recorder=self._recorder(),
        )
        self._pieces.append(made)
        return made

    @property
    def status(self) -> GraphStatus:
        """Return what became of the pieces of all calls so far, added up."""
        all_ = [piece.status for piece in self._pieces]
        reasons: dict[str, int] = {}
        for each in all_:
            for reason, count in each.reasons.items():
                reasons[reason] = reasons.get(reason, 0) + count
        return GraphStatus(
            self._program,
            sum(each.graphs for each in all_),
            sum(each.captures for each in all_),
            sum(each.replays for each in all_),
            sum(each.plain for each in all_),
            reasons,
            bool(all_) and all(each.refused for each in all_),
        )

    def release(self) -> int:
        """Drop the graphs; return the bytes of inputs' places. Later calls are captured anew."""
        with self._turn:
            return sum(piece.release() for piece in self._pieces)

    def __call__(self, call: Callable[..., tuple[Any, ...]]) -> Callable[..., tuple[Any, ...]]:
        """The function, its calls one after another."""

        @functools.wraps(call)
        def run(args: list[Any], out: Sequence[Any] | None = None) -> tuple[Any, ...]:
            with self._turn:
                return call(args) if out is None else call(args, out=out)

        return run
