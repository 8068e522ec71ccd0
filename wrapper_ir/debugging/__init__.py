"""Finding the call that went wrong: two runs compared, and a call taken out of its program."""

from __future__ import annotations

from wrapper_ir.debugging.bisect import BisectResult, bisect
from wrapper_ir.debugging.errors import (
    CallNotFoundError,
    CallNotReachedError,
    DifferentCallsError,
)
from wrapper_ir.debugging.extract import ExtractedCall, extract, find_call
from wrapper_ir.debugging.reduce import reduce
from wrapper_ir.runtime.probes import ProbeEvent, debug_session, hook

__all__ = [
    "BisectResult",
    "CallNotFoundError",
    "CallNotReachedError",
    "DifferentCallsError",
    "ExtractedCall",
    "ProbeEvent",
    "bisect",
    "debug_session",
    "extract",
    "find_call",
    "hook",
    "reduce",
]
