"""Collectives: ops that begin work which goes on beside the program until it is waited for.

Until then the work reads what the op was given, and writes what it returned or wrote in place.
Schemas do not say so: an op looks as if it were done when it returns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from wrapper_ir.lines.traits import op_of

if TYPE_CHECKING:
    from wrapper_ir.lines.program import AnyLine

_NAMESPACE: Final = "_c10d_functional::"

_STARTERS: Final = tuple(
    _NAMESPACE + name
    for name in (
        "all_gather_into_tensor",
        "all_reduce",
        "all_to_all_single",
        "batch_p2p_ops",
        "broadcast",
        "irecv",
        "isend",
        "reduce_scatter_tensor",
    )
)
"""What the names of ops begin with that start work, in place or not, one by one or coalesced."""

_WAIT: Final = f"{_NAMESPACE}wait_tensor"
"""What the names of ops begin with that wait."""


def begins_work(line: AnyLine) -> bool:
    """Return whether a line starts work that goes on behind it."""
    return op_of(line).startswith(_STARTERS)


def waits_for_work(line: AnyLine) -> bool:
    """Return whether a line waits for the work on what it is given."""
    return op_of(line).startswith(_WAIT)
