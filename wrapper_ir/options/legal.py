"""What a target can render of planned programs."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Final

from wrapper_ir.options.schema import Option

MIXED_POOLS: Final = Option(
    "mixed_pools", bool, default=True, help="slices of a pool may have another type than the pool"
)

RETYPED_REUSE: Final = Option(
    "retyped_reuse", bool, default=True, help="memory may be reused as another type than its own"
)

RETYPED_WRITES: Final = Option(
    "retyped_writes",
    str,
    default="all",
    choices=("all", "kernels", "none"),
    help="the calls that may write memory as another type than its own; 'kernels' have no grid",
)

WRITTEN_GAPS: Final = Option(
    "written_gaps",
    bool,
    default=True,
    help="library ops may write whole buffers that may have gaps",
)

SHARED_LOOPS: Final = Option(
    "shared_loops",
    bool,
    default=True,
    help="loops may carry memory that another operand shares, and hand on what they are given",
)


@dataclass(frozen=True, slots=True)
class Legal:
    """The parts of planned programs that a target can render; the default is everything.

    An emitter declares it (``Emitter.legal``). The pass ``legalise`` takes it as options and lowers
    the rest. What is still illegal when a program is rendered is rejected by name.

    Attributes:
        mixed_pools: Slices of a pool may have another element type than the pool. If not, a pool is
            split into one for each type.
        retyped_reuse: ``reuse`` may give memory another element type. If not, the new buffer gets
            memory of its own.
        retyped_writes: The calls that may write memory as another element type than its own:
            ``"all"``, only ``"kernels"`` that have no grid, or ``"none"``. Others write a copy.
        written_gaps: Library ops may write a whole buffer whose elements are not provably next to
            each other. If not, they write a copy.
        shared_loops: Loops may carry memory that another operand shares, and their bodies may
            return what they are given. If not, they get copies, unless a write would tell.
    """

    mixed_pools: bool = MIXED_POOLS.field()
    retyped_reuse: bool = RETYPED_REUSE.field()
    retyped_writes: str = RETYPED_WRITES.field()
    written_gaps: bool = WRITTEN_GAPS.field()
    shared_loops: bool = SHARED_LOOPS.field()

    @property
    def passes(self) -> tuple[str, ...]:
        """The pass that makes programs legal, in textual form; none if everything is."""
        given = []
        for field in dataclasses.fields(Legal):
            value = getattr(self, field.name)
            if value != field.default:
                given.append(f"{field.name}={str(value).lower()}")
        return (f"legalise{{{','.join(given)}}}",) if given else ()
