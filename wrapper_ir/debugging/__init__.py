"""Finding the call that went wrong: two runs compared, and a call taken out of its program."""

from __future__ import annotations

from wrapper_ir.debugging.bisect import BisectResult, bisect
from wrapper_ir.debugging.errors import (
    CallNotFoundError,
    CallNotReachedError,
    DifferentCallsError,
)
from wrapper_ir.debugging.extract import ExtractedCall, extract, find_call

__all__ = [
    "BisectResult",
    "CallNotFoundError",
    "CallNotReachedError",
    "DifferentCallsError",
    "ExtractedCall",
    "bisect",
    "extract",
    "find_call",
]
