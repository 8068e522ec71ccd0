"""The reference interpreter, which runs programs line by line and checks the effects of each line.

It is slow and simple on purpose. Emitters, planners and probes are compared with it. Its results
must follow from the lines alone, so it shares no rendering with any emitter.
"""

# ruff: noqa: F403 - what a module lists in its __all__ is public here

from __future__ import annotations

from wrapper_ir.interpreter import memory
from wrapper_ir.interpreter.made_up import NoTypicalValueError, made_up_inputs
from wrapper_ir.interpreter.memory import *
from wrapper_ir.interpreter.queues import RaceError
from wrapper_ir.interpreter.ranks import DeadlockError, run_ranks
from wrapper_ir.interpreter.run import (
    InterleavingError,
    folded_values,
    interpret,
    run_interleaved,
)

__all__ = ["DeadlockError", "InterleavingError", "NoTypicalValueError", "RaceError"]
__all__ += ["folded_values", "interpret", "made_up_inputs", "run_interleaved", "run_ranks"]
__all__ += memory.__all__
