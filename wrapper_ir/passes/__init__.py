"""Passes, their textual form, and the pipeline between front ends and emitters.

A pass is a pure function from programs to programs, with a name. It never changes its argument, and
returns the same object if there is nothing to do; a second run changes nothing. Those of the
library are frozen dataclasses whose fields are their options. Kinds of devices and emitters name
passes of their own (docs/adr/0019).
"""

from wrapper_ir.passes.base import Checked, Pass, PassFaultError, PassOutputError
from wrapper_ir.passes.branch import Branch
from wrapper_ir.passes.cut import PrepareCapture
from wrapper_ir.passes.keep import KeepStorage
from wrapper_ir.passes.legalise import Legalise
from wrapper_ir.passes.pipeline import (
    legalisation_for,
    lower,
    lowering_for,
    pipeline_for,
    plan_memory,
    run_passes,
)
from wrapper_ir.passes.plan import (
    CheckResults,
    InsertFrees,
    PlanExterns,
    PlanMemory,
    ReuseInPlace,
    StripComments,
)
from wrapper_ir.passes.probes import InsertProbes
from wrapper_ir.passes.textual import (
    PASSES,
    FunctionPass,
    PassLoadError,
    PassSpellingError,
    parse_pass,
    parse_pipeline,
)

__all__ = ["PASSES", "Branch", "CheckResults", "Checked", "FunctionPass", "InsertFrees"]
__all__ += ["InsertProbes", "KeepStorage", "Legalise", "Pass", "PassFaultError", "PassLoadError"]
__all__ += ["PassOutputError", "PassSpellingError", "PlanExterns", "PlanMemory", "PrepareCapture"]
__all__ += ["ReuseInPlace", "StripComments", "legalisation_for", "lower", "lowering_for"]
__all__ += ["parse_pass", "parse_pipeline", "pipeline_for", "plan_memory", "run_passes"]
