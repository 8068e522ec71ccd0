"""The debug printer: probes around calls, so that every emitter shows the same values.

A pass puts ``Probe`` lines around chosen calls of a planned program; an emitter renders one line
class and so has every level. Off puts in nothing, so the emitted bytes are those of a program
that knows no debugging.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from wrapper_ir.debug_printer.apply import with_debugging
from wrapper_ir.debug_printer.environment import make_printer, settings_from_environment
from wrapper_ir.debug_printer.insert import insert_probes, remove_probes
from wrapper_ir.debug_printer.levels import LEVEL_NAMES, parse_level
from wrapper_ir.debug_printer.operands import Operands
from wrapper_ir.debug_printer.poison import poison
from wrapper_ir.debug_printer.select import Call, NoCallMatchesWarning, calls_of, select
from wrapper_ir.debug_printer.spec import OPERANDS, DebugPrinter

if TYPE_CHECKING:
    from wrapper_ir.debugging import ProbeEvent as ProbeEvent
    from wrapper_ir.debugging import debug_session as debug_session
    from wrapper_ir.debugging import hook as hook
    from wrapper_ir.debugging.bisect import bisect as bisect
    from wrapper_ir.debugging.extract import extract as extract

__all__ = [
    "LEVEL_NAMES",
    "OPERANDS",
    "Call",
    "DebugPrinter",
    "NoCallMatchesWarning",
    "Operands",
    "calls_of",
    "insert_probes",
    "make_printer",
    "parse_level",
    "poison",
    "remove_probes",
    "select",
    "settings_from_environment",
    "with_debugging",
]

#: Names for users that are defined where programs are run.
_RUNNING = ("ProbeEvent", "bisect", "debug_session", "extract", "hook")


def __getattr__(name: str) -> object:
    """What runs programs, which this package, a layer of passes, cannot."""
    if name in _RUNNING:
        return getattr(importlib.import_module("wrapper_ir.debugging"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
