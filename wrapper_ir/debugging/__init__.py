"""Tools for a wrong program: two runs compared, a call taken out, the program made small."""

from __future__ import annotations

from wrapper_ir.debugging.bisect import BisectResult, bisect
from wrapper_ir.debugging.errors import (
    CallNotFoundError,
    CallNotReachedError,
    CommandError,
    DifferentCallsError,
    NoFailureError,
    NoOriginsError,
    OtherGraphError,
)
from wrapper_ir.debugging.extract import ExtractedCall, extract, find_call
from wrapper_ir.debugging.reduce import by_command, by_difference, reduce
from wrapper_ir.runtime.probes import ProbeEvent, debug_session, hook

__all__ = [
    "BisectResult",
    "CallNotFoundError",
    "CallNotReachedError",
    "CommandError",
    "DifferentCallsError",
    "ExtractedCall",
    "NoFailureError",
    "NoOriginsError",
    "OtherGraphError",
    "ProbeEvent",
    "bisect",
    "by_command",
    "by_difference",
    "debug_session",
    "extract",
    "find_call",
    "hook",
    "reduce",
]
