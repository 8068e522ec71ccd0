"""What a probe does, by the names and numbers that users know."""

from __future__ import annotations

from typing import Final

from wrapper_ir.errors import OptionValueError
from wrapper_ir.lines.trace import ProbeLevel

__all__ = ["LEVEL_NAMES", "parse_level"]

#: Every spelling of a level; ``None`` is off. The numbers and the long names are Inductor's.
_SPELLINGS: Final[dict[str, ProbeLevel | None]] = {
    "off": None,
    "0": None,
    "save": ProbeLevel.SAVE,
    "save_only": ProbeLevel.SAVE,
    "1": ProbeLevel.SAVE,
    "print": ProbeLevel.PRINT,
    "print_only": ProbeLevel.PRINT,
    "2": ProbeLevel.PRINT,
    "names": ProbeLevel.NAMES,
    "print_kernel_names_only": ProbeLevel.NAMES,
    "3": ProbeLevel.NAMES,
    "check": ProbeLevel.CHECK,
    "check_nan": ProbeLevel.CHECK_NAN,
    "stats": ProbeLevel.STATS,
    "compare": ProbeLevel.COMPARE,
    "hook": ProbeLevel.HOOK,
}

#: The short name of each level, in the order of the documentation.
LEVEL_NAMES: Final = (
    *("off", "save", "print", "names", "check", "check_nan", "stats", "compare", "hook"),
)


def parse_level(level: object, option: str = "debug") -> ProbeLevel | None:
    """Return the level that a name, a number or a ``ProbeLevel`` stands for; None for off.

    Args:
        level: ``"print"``, ``"PRINT_ONLY"``, ``2``, ``"2"``, ``ProbeLevel.PRINT``, ...
        option: What an error calls the option.

    Raises:
        OptionValueError: There is no such level.
    """
    if isinstance(level, ProbeLevel):
        return level
    if isinstance(level, (str, int)) and not isinstance(level, bool):
        spelled = str(level).strip().lower()
        if spelled in _SPELLINGS:
            return _SPELLINGS[spelled]
    expected = f"one of {', '.join(map(repr, LEVEL_NAMES))}, or one of Inductor's numbers 0 to 3"
    raise OptionValueError(option=option, value=level, expected=expected)
