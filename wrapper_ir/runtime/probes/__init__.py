"""The runtime of the debug printer: probes print, save, check and compare values."""

from wrapper_ir.runtime.probes.describe import (
    TOLERANCES,
    Statistics,
    describe,
    difference,
    private_copy,
    statistics,
)
from wrapper_ir.runtime.probes.probe import Hooked, NonFiniteError, ProbeEvent, hook, make_probe
from wrapper_ir.runtime.probes.session import DebugSession, debug_session

__all__ = [
    "TOLERANCES",
    "DebugSession",
    "Hooked",
    "NonFiniteError",
    "ProbeEvent",
    "Statistics",
    "debug_session",
    "describe",
    "difference",
    "hook",
    "make_probe",
    "private_copy",
    "statistics",
]
