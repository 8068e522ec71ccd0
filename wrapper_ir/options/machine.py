"""The machine that kernels are written for, if it is not to be the one at hand.

Inductor's C++ depends on the width of vectors and on the number of threads. Snapshots are to be the
same on every machine, so the fixtures for them pin both.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Machine:
    """The facts of a machine that the text of a kernel depends on.

    Attributes:
        isa: The instruction set, as Inductor calls it.
        bits: The width of its vectors.
        threads: The number of threads.
    """

    isa: str
    bits: int
    threads: int


SNAPSHOTS: Final = Machine("avx2", bits=256, threads=4)
"""The machine of snapshots. Processors without AVX2 get kernels without vectors."""

pinned: Final[ContextVar[Machine | None]] = ContextVar("pinned", default=None)
"""The machine that captures in this context are for; None for the one at hand."""
