"""The reference interpreter: runs programs line by line, and checks what every line does.

It is slow and plain on purpose. Emitters, planners and probes are compared with it; what it
computes has to come from the lines alone, so it shares no rendering with any emitter.
"""

from __future__ import annotations

from wrapper_ir.interpreter.memory import (
    BrokenPromiseError,
    CallFailedError,
    DeadBufferError,
    LeakError,
    MissingValueError,
    OutOfBoundsError,
    RedZoneError,
    StrayWriteError,
    SymbolValueError,
    UndefinedBufferError,
    WrongEndError,
)
from wrapper_ir.interpreter.run import interpret

__all__ = [
    "BrokenPromiseError",
    "CallFailedError",
    "DeadBufferError",
    "LeakError",
    "MissingValueError",
    "OutOfBoundsError",
    "RedZoneError",
    "StrayWriteError",
    "SymbolValueError",
    "UndefinedBufferError",
    "WrongEndError",
    "interpret",
]
