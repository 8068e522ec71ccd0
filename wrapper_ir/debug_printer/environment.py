"""The debug printer that the environment asks for, where the code asks for none."""

from __future__ import annotations

import os
from typing import Final

from wrapper_ir.debug_printer.levels import parse_level
from wrapper_ir.debug_printer.spec import DebugPrinter
from wrapper_ir.errors import OptionValueError

__all__ = [
    "FILTER_VARIABLE",
    "LEVEL_VARIABLE",
    "POISON_VARIABLE",
    "make_printer",
    "settings_from_environment",
]

LEVEL_VARIABLE = "WRAPPER_IR_DEBUG"
FILTER_VARIABLE = "WRAPPER_IR_DEBUG_FILTER"
POISON_VARIABLE = "WRAPPER_IR_DEBUG_POISON"

_TRUTH: Final = {"": False, "0": False, "false": False, "off": False, "no": False} | dict.fromkeys(
    ("1", "true", "on", "yes"), True
)


def settings_from_environment() -> tuple[str, str, bool]:
    """Level, filter and whether memory is poisoned: ``off``, ``*`` and no where nothing is set.

    Read when a program is compiled.

    Raises:
        OptionValueError: ``WRAPPER_IR_DEBUG`` is not a level, or ``WRAPPER_IR_DEBUG_POISON`` says
            neither yes nor no.
    """
    level = os.environ.get(LEVEL_VARIABLE) or "off"
    parse_level(level, LEVEL_VARIABLE)
    word = os.environ.get(POISON_VARIABLE, "")
    poison = _TRUTH.get(word.strip().lower())
    if poison is None:
        raise OptionValueError(option=POISON_VARIABLE, value=word, expected="'1' or '0'")
    return level, os.environ.get(FILTER_VARIABLE) or "*", poison


def make_printer(
    debug: DebugPrinter | str | int | None = None, filter_: str = "", *, poison: bool = False
) -> DebugPrinter | None:
    """The debug printer that an option asks for, else the environment; None for none.

    Args:
        debug: A printer, a level, or None for what the environment says.
        filter_: Pattern for the names of kernels, where a level is given.
        poison: Whether new memory is filled with NaN, whatever the level.

    Raises:
        OptionValueError: There is no such level, or the filter is no pattern.
    """
    if isinstance(debug, DebugPrinter):
        return debug if debug.probe_level is not None or debug.poison else None
    level, pattern = debug, filter_
    if level is None:
        level, pattern, poisoned = settings_from_environment()
        poison = poison or poisoned
    if parse_level(level) is None and not poison:
        return None
    return DebugPrinter(level, kernels=pattern or "*", poison=poison)
