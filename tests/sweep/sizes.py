"""Sizes on the scale of real models, drawn on both sides of what Inductor decides by.

Convention: a family of workloads names its sizes in the order in which they are drawn; ``rest`` is
what remains of the elements that the workload is to have, so that one size makes up for the others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import isqrt
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from random import Random

__all__ = ["SCALES", "Draws", "Scale", "Size", "among", "rest", "side", "square", "width"]

#: Widths of real models, and both sides of where Inductor's ways part: 8 elements are unrolled, 64
#: (outer) and 1,024 (inner) reduced by a persistent kernel, 2,048 and 4,096 columns and rows
#: of reductions of mixed order, 65,535 blocks of a grid's second axis; products are padded where
#: a size is no multiple of 8.
WIDTHS: Final = (
    *(1, 2, 3, 7, 8, 9, 31, 32, 63, 64, 65, 96, 127, 128, 129, 192, 255, 256, 257, 320, 384),
    *(511, 512, 513, 640, 768, 1000, 1023, 1024, 1025, 1280, 1536, 2047, 2048, 2049, 2560),
    *(3072, 4095, 4096, 4097, 5120, 8191, 8192, 8193, 11008, 14336, 16384, 16385, 28672),
    *(32000, 32768, 32769, 50257, 65535, 65536, 65537, 128256, 131072, 151936),
)


@dataclass(frozen=True)
class Scale:
    """How large workloads are.

    Attributes:
        low: The elements of the largest tensor, at least.
        high: At most.
        widest: No width is greater.
        wide: The chance of more elements than 32 bits can index, from 0 to 1.
    """

    low: int
    high: int
    widest: int
    wide: float


#: By device. A CPU shows that the tool works, and what has nothing to do with GPUs.
SCALES: Final = {
    "cuda": Scale(10**5, 10**9, 151936, 0.02),
    "cpu": Scale(10**3, 10**5, 1025, 0.0),
}


class Draws:
    """Draws the sizes of one workload.

    Args:
        random: Where chance comes from.
        scale: How large the workload may be.

    Attributes:
        elements: What its largest tensor is to have, about.
        used: The product of the sizes drawn so far.
    """

    def __init__(self, random: Random, scale: Scale) -> None:
        self.random = random
        self.scale = scale
        self.used = 1
        if random.random() < scale.wide:
            self.elements = 2**31 + random.choice((1, 2**20, 2**24 + 1))
        else:
            self.elements = int(scale.low * (scale.high / scale.low) ** random.random())

    def take(self, size: int) -> int:
        """Count a size among those drawn."""
        self.used *= max(size, 1)
        return size


Size = Callable[[Draws], int]


def width(low: int = 1, high: int = 1 << 18) -> Size:
    """Draw a width of real models between two bounds, mostly a marked one."""

    def draw(draws: Draws) -> int:
        most = max(low, min(high, draws.scale.widest, draws.elements // draws.used))
        marked = [w for w in WIDTHS if low <= w <= most]
        if marked and draws.random.random() < 0.85:
            return draws.take(draws.random.choice(marked))
        return draws.take(draws.random.randint(low, most))

    return draw


def side(low: int = 1, high: int = 1 << 18) -> Size:
    """Draw a side of a matrix that may be four times as long as wide; the rest takes no notice."""

    def draw(draws: Draws) -> int:
        used, draws.used = draws.used, 1
        most = max(low, min(high, 2 * isqrt(draws.elements)))
        drawn = width(low, most)(draws)
        draws.used = used
        return drawn

    return draw


def square(low: int = 1, high: int = 1 << 18) -> Size:
    """Draw a width that a tensor has twice."""

    def draw(draws: Draws) -> int:
        return draws.take(width(low, min(high, max(low, isqrt(draws.elements))))(draws))

    return draw


def rest(low: int = 1, high: int = 1 << 40) -> Size:
    """Draw what the elements leave, as a power of two, one beside it, or as it comes."""

    def draw(draws: Draws) -> int:
        left = max(low, min(high, draws.elements // draws.used))
        power = 1 << (left.bit_length() - 1)
        found = draws.random.choice((left, left, left | 1, power, power + 1, power - 1))
        if draws.elements > 2**31:
            found = left + 1  # nothing may be lost of what is to be many
        return draws.take(max(low, min(high, found)))

    return draw


def among(*sizes: int) -> Size:
    """Draw one of a few sizes."""
    return lambda draws: draws.take(draws.random.choice(sizes))
