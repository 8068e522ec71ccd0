"""Compiled functions whose frames trade what they call, so that where guards lie favours nobody.

A call through Dynamo reads a guard for each of the things that the function depends on. They are
allocated one by one when a function is compiled, where the heap has room at that moment: the first
ones lie scattered in its holes, later ones in a row. In turn, when a call finds no cache as it left
it, that alone makes Dynamo's part of one and the same function up to twice as long. So ways that
are to be compared must not each keep the frame that they were compiled with.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from benchmarks.common import Call
from wrapper_ir.frontends.inductor.compat import cache_entries

if TYPE_CHECKING:
    import random
    from types import FunctionType

#: Makes of a compiled function the call to be timed.
Use = Callable[[Callable[..., Any]], Call]


@dataclass(frozen=True)
class Frame:
    """What Dynamo has made of a function with one graph.

    Attributes:
        compiled: Calls it.
        scope: The variables of its module.
        name: Under which of them Dynamo's code finds the compiled graph.
    """

    compiled: Callable[..., Any]
    scope: dict[str, Any]
    name: str


def frame_of(function: FunctionType, compiled: Callable[..., Any]) -> Frame:
    """Return the frame of a function that was called once.

    Raises:
        ValueError: It has several graphs, or none.
    """
    names = [
        name
        for entry in cache_entries(function.__code__)
        for name in entry.code.co_names
        if name.startswith("__compiled_fn")
    ]
    if len(names) != 1:
        raise ValueError(f"{function.__name__} has {len(names)} graphs, not one")
    return Frame(compiled, function.__globals__, names[0])


class Frames:
    """Frames of one function, each with the graph of a way to compile it."""

    def __init__(self) -> None:
        """Begin with none."""
        self._frames: list[Frame] = []
        self._graphs: list[Any] = []
        self._uses: dict[str, Use] = {}

    def add(self, way: str, function: FunctionType, compiled: Callable[..., Any], use: Use) -> None:
        """Add the frame and the graph of a way, and how it is called."""
        frame = frame_of(function, compiled)
        self._frames.append(frame)
        self._graphs.append(frame.scope[frame.name])
        self._uses[way] = use

    def drawn(self, generator: random.Random) -> dict[str, Call]:
        """Have each way's graph called from a frame that is drawn; return the calls by way."""
        frames = self._frames.copy()
        generator.shuffle(frames)
        for frame, graph in zip(frames, self._graphs, strict=True):
            frame.scope[frame.name] = graph
        uses = zip(self._uses.items(), frames, strict=True)
        return {way: use(frame.compiled) for (way, use), frame in uses}
