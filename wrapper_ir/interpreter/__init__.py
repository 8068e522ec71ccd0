"""The reference interpreter, which runs programs line by line and checks the effects of each line.

It is slow and simple on purpose. Emitters, planners and probes are compared with it. Its results
must follow from the lines alone, so it shares no rendering with any emitter.
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
from wrapper_ir.interpreter.run import folded_values, interpret

__all__ = ["BrokenPromiseError", "CallFailedError", "DeadBufferError", "LeakError"]
__all__ += ["MissingValueError", "OutOfBoundsError", "RedZoneError", "StrayWriteError"]
__all__ += ["SymbolValueError", "UndefinedBufferError", "WrongEndError", "folded_values"]
__all__ += ["interpret"]
