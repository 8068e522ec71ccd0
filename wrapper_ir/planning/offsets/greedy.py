"""Planning one interval after another: each gets the best gap among those that share a time.

What is hard to place goes first; what "hard" means is the order. None is best for all programs:
each of these was the only one to reach the lower bound of some real graph.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from wrapper_ir.planning.offsets.intervals import Problem


def placed(problem: Problem, order: list[int], *, best: bool) -> list[int]:
    """Offsets from placing in ``order``, in the smallest gap that fits or in the lowest."""
    offsets = [-1] * len(problem)
    sizes, neighbours = problem.size, problem.neighbours
    for i in order:
        taken = sorted((offsets[j], sizes[j]) for j in neighbours[i] if offsets[j] >= 0)
        needed, end, at, smallest = sizes[i], 0, -1, 0
        for start, nbytes in taken:
            room = start - end
            if room >= needed and (at < 0 or room < smallest):
                at, smallest = end, room
                if not best:
                    break
            if start + nbytes > end:
                end = start + nbytes
        offsets[i] = end if at < 0 else at
    return offsets


def by_size(problem: Problem) -> list[int]:
    """The largest first."""
    size, lower, upper = problem.size, problem.lower, problem.upper
    return _descending(problem, lambda i: (size[i], upper[i] - lower[i]))


def by_area(problem: Problem) -> list[int]:
    """The largest product of size and duration first."""
    size, lower, upper = problem.size, problem.lower, problem.upper
    return _descending(problem, lambda i: (size[i] * (upper[i] - lower[i]), size[i]))


def by_duration(problem: Problem) -> list[int]:
    """Order intervals by duration, longest first."""
    size, lower, upper = problem.size, problem.lower, problem.upper
    return _descending(problem, lambda i: (upper[i] - lower[i], size[i]))


def by_contention(problem: Problem) -> list[int]:
    """Order intervals by the bytes alive at the same time, most first."""
    size, neighbours = problem.size, problem.neighbours
    return _descending(problem, lambda i: (size[i] + sum(size[j] for j in neighbours[i]), size[i]))


def by_breadth(problem: Problem) -> list[int]:
    """Order intervals by the peak of live bytes during their life, highest first."""
    first, behind, count = problem.sections
    breadth = [0] * count
    for i, size in enumerate(problem.size):
        for section in range(first[i], behind[i]):
            breadth[section] += size
    return _descending(problem, lambda i: (max(breadth[first[i] : behind[i]]), problem.size[i]))


def by_degree(problem: Problem) -> list[int]:
    """Order intervals by how many others they overlap in time, most first."""
    neighbours = problem.neighbours
    return _descending(problem, lambda i: (len(neighbours[i]), problem.size[i]))


def by_width(problem: Problem) -> list[int]:
    """Order intervals by how many sections of time they span, most first."""
    first, behind, _ = problem.sections
    return _descending(problem, lambda i: (behind[i] - first[i], problem.size[i]))


def _descending(problem: Problem, key: Callable[[int], tuple[int, int]]) -> list[int]:
    return sorted(range(len(problem)), key=lambda i: (*(-part for part in key(i)), i))


ORDERS = {
    "size": by_size,
    "size x duration": by_area,
    "contention": by_contention,
    "breadth": by_breadth,
    "duration": by_duration,
    "degree": by_degree,
    "width": by_width,
}
"""Every order by its name."""
