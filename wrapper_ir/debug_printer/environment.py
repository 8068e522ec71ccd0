"""The debug printer that the environment asks for, where the code asks for none."""

from __future__ import annotations

import os

from wrapper_ir.debug_printer.levels import parse_level
from wrapper_ir.debug_printer.spec import DebugPrinter

__all__ = ["FILTER_VARIABLE", "LEVEL_VARIABLE", "make_printer", "settings_from_environment"]

LEVEL_VARIABLE = "WRAPPER_IR_DEBUG"
FILTER_VARIABLE = "WRAPPER_IR_DEBUG_FILTER"


def settings_from_environment() -> tuple[str, str]:
    """Level and filter, ``off`` and ``*`` where nothing is set. Read when a program is compiled.

    Raises:
        OptionValueError: ``WRAPPER_IR_DEBUG`` is not a level.
    """
    level = os.environ.get(LEVEL_VARIABLE) or "off"
    parse_level(level, LEVEL_VARIABLE)
    return level, os.environ.get(FILTER_VARIABLE) or "*"


def make_printer(
    debug: DebugPrinter | str | int | None = None, filter_: str = ""
) -> DebugPrinter | None:
    """The debug printer that an option asks for, else the environment; None for none.

    Args:
        debug: A printer, a level, or None for what the environment says.
        filter_: Pattern for the names of kernels, with a level.

    Raises:
        OptionValueError: There is no such level, or the filter is no pattern.
    """
    if isinstance(debug, DebugPrinter):
        return debug if debug.probe_level is not None else None
    level, pattern = (debug, filter_) if debug is not None else settings_from_environment()
    if parse_level(level) is None:
        return None
    return DebugPrinter(level, kernels=pattern or "*")
