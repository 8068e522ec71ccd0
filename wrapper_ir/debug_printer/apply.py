"""All that a debug printer asks for, done to a program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wrapper_ir.debug_printer.insert import insert_probes
from wrapper_ir.debug_printer.poison import poison

if TYPE_CHECKING:
    from wrapper_ir.debug_printer.spec import DebugPrinter
    from wrapper_ir.lines.program import Program

__all__ = ["with_debugging"]


def with_debugging(program: Program, printer: DebugPrinter | None) -> Program:
    """A planned program with a debug printer's probes, and its memory poisoned if it says so.

    Warns:
        NoCallMatchesWarning: The filter chooses none of the program's calls.
    """
    if printer is None:
        return program
    probed = insert_probes(program, printer)
    return poison(probed) if printer.poison else probed
