"""A function that is captured in pieces; the code between them runs uncaptured.

Results of a piece that only the rest of the call uses stay in the graph's memory, where the next
piece finds them at the same addresses. So whole calls take turns: the next one begins when all work
of the last one has been issued, and its graphs wait for that on the GPU.

Each piece has its own memory pool. A call may combine any graph of one piece with any graph of
another, whichever was captured first. In a common pool, one might overwrite the other's results.
"""

from __future__ import annotations

import functools
import threading
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from wrapper_ir.runtime.cuda_graphs.captured import CudaGraphs
from wrapper_ir.runtime.cuda_graphs.recorder import CudaRecorder, Recorder
from wrapper_ir.runtime.cuda_graphs.status import GraphStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor


class CutGraphs:
    """A decorator that captures the pieces of a function and makes its calls take turns.

    The function takes the list of inputs and empties it. The arguments are those of
    :class:`CudaGraphs`, for each piece; ``recorder`` returns a new recorder for one.
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
        self._recorder = recorder or partial(CudaRecorder, device or torch.device("cuda"))
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
        """Return the decorator that captures the function of one piece, which is at ``place``.

        The other arguments are those of :class:`CudaGraphs`: ``settled`` inputs come from other
        pieces, whose addresses are fixed once those are captured, and no caller sees ``shared``
        results.
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
        """The status of calls so far, summed over the pieces."""
        all_ = [piece.status for piece in self._pieces]
        counted = ("graphs", "captures", "replays", "plain")
        return GraphStatus(
            self._program,
            **{name: sum(getattr(each, name) for each in all_) for name in counted},
            reasons=dict(sum((Counter(each.reasons) for each in all_), Counter[str]())),
            refused=bool(all_) and all(each.refused for each in all_),
        )

    def release(self) -> int:
        """Drop the graphs; return the bytes of their input buffers. Later calls capture again."""
        with self._turn:
            return sum(piece.release() for piece in self._pieces)

    def __call__(self, call: Callable[..., tuple[Any, ...]]) -> Callable[..., tuple[Any, ...]]:
        """Return the function with its calls serialized."""

        @functools.wraps(call)
        def run(args: list[Any], out: Sequence[Any] | None = None) -> tuple[Any, ...]:
            with self._turn:
                return call(args) if out is None else call(args, out=out)

        return run
