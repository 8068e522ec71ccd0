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

__all__ = ["BisectResult", "CallNotFoundError", "CallNotReachedError", "CommandError"]
__all__ += ["DifferentCallsError", "ExtractedCall", "NoFailureError", "NoOriginsError"]
__all__ += ["OtherGraphError", "ProbeEvent", "bisect", "by_command", "by_difference"]
__all__ += ["debug_session", "extract", "find_call", "hook", "reduce"]
