"""The debug printer: probes around calls, so that every emitter shows the same values.

A pass inserts ``Probe`` lines around selected calls of a planned program. An emitter supports every
level by rendering this one line class. The level ``off`` inserts nothing, so it leaves no trace in
the emitted text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wrapper_ir.options.declared import LEVEL_NAMES
from wrapper_ir.passes.printer import OPERANDS, DebugPrinter, make_printer, parse_level
from wrapper_ir.passes.probed import Call, NoCallMatchesWarning, Operands, calls_of, select
from wrapper_ir.passes.probes import insert_probes, poison, remove_probes, with_debugging

if TYPE_CHECKING:
    from wrapper_ir.debugging import ProbeEvent as ProbeEvent
    from wrapper_ir.debugging import bisect as bisect
    from wrapper_ir.debugging import debug_session as debug_session
    from wrapper_ir.debugging import extract as extract
    from wrapper_ir.debugging import hook as hook

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
    "with_debugging",
]

#: Public names that are defined in ``wrapper_ir.debugging``, which runs programs.
_RUNNING = ("ProbeEvent", "bisect", "debug_session", "extract", "hook")


def __getattr__(name: str) -> object:
    """Import the tools that run programs on first use; the passes here do not need them."""
    if name in _RUNNING:
        from wrapper_ir import debugging  # noqa: PLC0415 - a layer above, which imports torch

        return getattr(debugging, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
