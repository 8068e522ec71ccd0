"""Times of several functions, measured in one run so that the machine's moods hit all alike."""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


#: Rounds without which there are no quartiles to speak of.
_LEAST = 3


class Time(NamedTuple):
    """A median and half the distance between the quartiles around it, in seconds; of how many."""

    median: float
    spread: float
    calls: int


def interleaved_medians(
    functions: Mapping[str, Callable[[], object]],
    *,
    rounds: int,
    seconds: float = 20.0,
    warmup: int = 3,
) -> dict[str, Time]:
    """Return the median time of one call of each function.

    Each round calls every function once, and begins with another one than the round before: a
    neighbour on the machine, or what the one before left in the CPU's caches, favours nobody.

    Args:
        functions: What to measure, by name.
        rounds: How often each is timed, at most.
        seconds: After so much time there are no further rounds; but there are at least three.
        warmup: How often each is called before.
    """
    names = list(functions)
    for _ in range(warmup):
        for name in names:
            functions[name]()
    times: dict[str, list[float]] = {name: [] for name in names}
    end = time.perf_counter() + seconds
    for turn in range(rounds):
        if turn >= _LEAST and time.perf_counter() > end:
            break
        start = turn % len(names)
        for name in names[start:] + names[:start]:
            function = functions[name]
            begin = time.perf_counter()
            function()
            times[name].append(time.perf_counter() - begin)
    return {name: _time(each) for name, each in times.items()}


def _time(seconds: list[float]) -> Time:
    low, middle, high = statistics.quantiles(seconds, n=4, method="inclusive")
    return Time(middle, (high - low) / 2, len(seconds))
