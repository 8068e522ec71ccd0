"""Tools for programs with wrong results: bisect two runs, extract a call, reduce the program."""

from __future__ import annotations

from wrapper_ir.debugging.bisect import BisectResult, DifferentCallsError, NoOriginsError, bisect
from wrapper_ir.debugging.eager import OtherGraphError
from wrapper_ir.debugging.extract import (
    CallNotFoundError,
    CallNotReachedError,
    ExtractedCall,
    extract,
    find_call,
)
from wrapper_ir.debugging.reduce import (
    CommandError,
    NoFailureError,
    by_command,
    by_difference,
    reduce,
)
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
