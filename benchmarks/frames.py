"""Compiled functions whose frames trade what they call, so that where guards lie favours nobody.

    python -m benchmarks.frames              # shows that they do, and that it costs nothing
    python -m benchmarks.frames mlp          # one of the models of benchmarks/whole_call.py

A call through Dynamo reads a guard for each of the things that the function depends on. They are
allocated one by one when a function is compiled, where the heap has room at that moment: the first
ones lie scattered in its holes, later ones in a row. In turn, when a call finds no cache as it left
it, that alone makes Dynamo's part of one and the same function up to twice as long. So ways that
are to be compared must not each keep the frame that they were compiled with.

Run as a script, it has Dynamo alone compile a function eight times, and times calls in turn: from
the frames as they were made; with the graphs traded; and each graph assigned to its own frame.
"""

from __future__ import annotations

import argparse
import gc
import random
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from benchmarks.common import Call, apart, nothing, show
from benchmarks.whole_call_models import SUBJECTS
from wrapper_ir.frontends.inductor.compat import cache_entries

if TYPE_CHECKING:
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

    def __contains__(self, way: str) -> bool:
        """Return whether a way has been added."""
        return way in self._uses

    def drawn(self, generator: random.Random) -> dict[str, Call]:
        """Have each way's graph called from a frame that is drawn; return the calls by way."""
        frames = self._frames.copy()
        generator.shuffle(frames)
        return self._assigned(frames)

    def as_made(self) -> dict[str, Call]:
        """Have each way's graph called from its own frame; return the calls by way."""
        return self._assigned(self._frames)

    def _assigned(self, frames: list[Frame]) -> dict[str, Call]:
        for frame, graph in zip(frames, self._graphs, strict=True):
            frame.scope[frame.name] = graph
        uses = zip(self._uses.items(), frames, strict=True)
        return {way: use(frame.compiled) for (way, use), frame in uses}


_COUNT, _ROUNDS = 8, 400
_MANNERS = ("as made", "traded", "assigned again")


def measure(name: str) -> dict[str, list[float]]:
    """Return microseconds of each compilation's calls in turn, by manner."""
    torch.manual_seed(0)
    torch._dynamo.reset()
    function, args = SUBJECTS[name].make()
    frames, generator = Frames(), random.Random(0)
    backend = nothing(function(*args))
    for number in range(_COUNT):
        each = apart(function)
        compiled = torch.compile(each, backend=backend)
        compiled(*args)
        frames.add(f"{number}", each, compiled, lambda compiled: lambda: compiled(*args))
    found: dict[str, dict[str, list[float]]] = {manner: {} for manner in _MANNERS}
    calls = frames.as_made()
    gc.collect()
    gc.disable()
    for at in range(_ROUNDS * len(_MANNERS)):
        manner = _MANNERS[at % len(_MANNERS)]
        if manner != "as made":
            calls = frames.drawn(generator) if manner == "traded" else frames.as_made()
        for way in generator.sample([*calls], len(calls)):
            start = time.thread_time_ns()
            calls[way]()
            found[manner].setdefault(way, []).append((time.thread_time_ns() - start) / 1e3)
        function(*args)  # as a program does something else between calls
    gc.enable()
    return {
        manner: [statistics.median(times[f"{number}"]) for number in range(_COUNT)]
        for manner, times in found.items()
    }


def main() -> None:
    """Show where the time of one and the same function goes to."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("subjects", nargs="*", default=["mlp", "recommender", "many"])
    options = parser.parse_args()
    torch.set_num_threads(1)
    with torch.no_grad():
        found = {name: measure(name) for name in options.subjects}
    rows = [
        (f"{name}, {manner}", *(f"{us:.1f}" for us in times))
        for name, manners in found.items()
        for manner, times in manners.items()
    ]
    titles = ("us a call, compiled as number", *map(str, range(1, _COUNT + 1)))
    show("Dynamo alone", titles, rows, found, as_json=False)


if __name__ == "__main__":
    main()
