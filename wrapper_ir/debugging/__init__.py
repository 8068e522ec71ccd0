"""Tools for programs with wrong results.

Compare a program with its graph, bisect two runs, extract a call, reduce the program. Record a run.
"""

from __future__ import annotations

from wrapper_ir.debugging.against_graph import NoOriginsError
from wrapper_ir.debugging.bisect import BisectResult, DifferentCallsError, bisect
from wrapper_ir.debugging.bisect_ranks import (
    NoSavedRunError,
    RankDifference,
    RanksBisected,
    bisect_ranks,
)
from wrapper_ir.debugging.eager import OtherGraphError
from wrapper_ir.debugging.extract import (
    CallNotFoundError,
    CallNotReachedError,
    ExtractedCall,
    extract,
    find_call,
)
from wrapper_ir.debugging.recording import CallTime, RecordedRun, record_run
from wrapper_ir.debugging.reduce import (
    CommandError,
    NoFailureError,
    by_command,
    by_difference,
    reduce,
)
from wrapper_ir.debugging.validation import validate
from wrapper_ir.graphs.findings import NotShown, Validation
from wrapper_ir.runtime.probes import ProbeEvent, debug_session, hook

__all__ = ["BisectResult", "CallNotFoundError", "CallTime", "RecordedRun", "record_run"]
__all__ += ["CallNotReachedError", "CommandError"]
__all__ += ["DifferentCallsError", "ExtractedCall", "NoFailureError", "NoOriginsError"]
__all__ += ["OtherGraphError", "ProbeEvent", "bisect", "by_command", "by_difference"]
__all__ += ["NotShown", "Validation", "debug_session", "extract", "find_call", "hook", "reduce"]
__all__ += ["NoSavedRunError", "RankDifference", "RanksBisected", "bisect_ranks", "validate"]
