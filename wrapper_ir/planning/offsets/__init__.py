"""Placement of intervals in an arena, independent of programs."""

from __future__ import annotations

from wrapper_ir.planning.offsets.intervals import (
    Interval,
    IntervalError,
    IntervalFileError,
    IntervalTable,
    PlanError,
    check_offsets,
    read_intervals,
    write_intervals,
)
from wrapper_ir.planning.offsets.portfolio import ALIGNMENT, OffsetPlan, assign_offsets

__all__ = [
    "ALIGNMENT",
    "Interval",
    "IntervalError",
    "IntervalFileError",
    "IntervalTable",
    "OffsetPlan",
    "PlanError",
    "assign_offsets",
    "check_offsets",
    "read_intervals",
    "write_intervals",
]
