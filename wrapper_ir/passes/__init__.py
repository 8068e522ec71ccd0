"""Passes, their textual form, and the pipeline between front ends and emitters.

A pass is a pure function from programs to programs, with a name. It never changes its argument, and
returns the same object if there is nothing to do; a second run changes nothing. Those of the
library are frozen dataclasses whose fields are their options. Kinds of devices and emitters name
passes of their own (docs/adr/0019).
"""

# ruff: noqa: F403 - what a module lists in its __all__ is public here

from wrapper_ir.passes import pipeline, plan, textual
from wrapper_ir.passes.base import Checked, Pass, PassFaultError, PassOutputError
from wrapper_ir.passes.branch import Branch
from wrapper_ir.passes.current import CurrentDevice
from wrapper_ir.passes.cut import PrepareCapture
from wrapper_ir.passes.keep import KeepStorage
from wrapper_ir.passes.legalise import Legalise
from wrapper_ir.passes.pipeline import *
from wrapper_ir.passes.plan import *
from wrapper_ir.passes.probes import InsertProbes
from wrapper_ir.passes.textual import *

__all__ = ["Branch", "Checked", "CurrentDevice", "InsertProbes", "KeepStorage", "Legalise", "Pass"]
__all__ += ["PassFaultError", "PassOutputError", "PrepareCapture"]
__all__ += pipeline.__all__
__all__ += plan.__all__
__all__ += textual.__all__
