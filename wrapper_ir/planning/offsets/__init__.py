"""Offsets in an arena for intervals of time: the part of planning that knows no programs."""

from __future__ import annotations

from wrapper_ir.planning.offsets.intervals import Interval, IntervalError, PlanError, check_offsets
from wrapper_ir.planning.offsets.portfolio import ALIGNMENT, NODES, OffsetPlan, assign_offsets
from wrapper_ir.planning.offsets.table import (
    IntervalFileError,
    IntervalTable,
    read_intervals,
    write_intervals,
)

__all__ = [
    "ALIGNMENT",
    "NODES",
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
