"""What every target has to know of library ops, beyond their schemas."""

from __future__ import annotations

from typing import Final

__all__ = ["FIXED_WRITERS", "PLAIN_WRITERS"]

PLAIN_WRITERS: Final = frozenset(
    ("aten::mm.out", "aten::addmm.out", "aten::bmm.out", "aten::baddbmm.out")
)
"""Ops that compute in one kernel, into a buffer of the program."""

FIXED_WRITERS: Final = PLAIN_WRITERS | frozenset(f"aten::{op}.out" for op in """
    acos add addbmm addcdiv addcmul addmv addr amax amin baddbmm cat cumprod cumsum gather
    index_select logcumsumexp mv
    """.split())  # noqa: SIM905 - one name a line would take the page
"""Ops that write into a buffer whose size follows from those of their arguments."""
