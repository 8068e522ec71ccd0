"""The debug printer's half that runs: what probes print, save, check and compare."""

from wrapper_ir.runtime.probes.compare import TOLERANCES, difference
from wrapper_ir.runtime.probes.describe import Statistics, describe, statistics
from wrapper_ir.runtime.probes.probe import NonFiniteError, make_probe
from wrapper_ir.runtime.probes.session import DebugSession, debug_session

__all__ = [
    "TOLERANCES",
    "DebugSession",
    "NonFiniteError",
    "Statistics",
    "debug_session",
    "describe",
    "difference",
    "make_probe",
    "statistics",
]
