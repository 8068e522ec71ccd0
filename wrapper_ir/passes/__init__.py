"""Passes: pure functions from programs to programs, with a name and options, and ways to run them.

A pass is a frozen dataclass; its fields are its options. It gives back the program it was given, as
the same object, where it has nothing to do, and never changes it.
"""

from __future__ import annotations

from wrapper_ir.passes.pipeline import (
    PASSES,
    Branch,
    InsertFrees,
    InsertProbes,
    KeepStorage,
    Pass,
    PassSpellingError,
    PlanExterns,
    PlanMemory,
    PrepareCapture,
    ReuseInPlace,
    StripComments,
    parse_pass,
    parse_pipeline,
    pipeline_for,
    run_passes,
)

__all__ = [
    "PASSES",
    "Branch",
    "InsertFrees",
    "InsertProbes",
    "KeepStorage",
    "Pass",
    "PassSpellingError",
    "PlanExterns",
    "PlanMemory",
    "PrepareCapture",
    "ReuseInPlace",
    "StripComments",
    "parse_pass",
    "parse_pipeline",
    "pipeline_for",
    "run_passes",
]
