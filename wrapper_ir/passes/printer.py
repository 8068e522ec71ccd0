"""The debug printer's configuration: the action, the calls and the operands.

It comes from the caller, or from the environment if the caller passes none.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from wrapper_ir.errors import OptionValueError
from wrapper_ir.lines.trace import ProbeLevel
from wrapper_ir.options.declared import DEBUG, DEBUG_FILTER, DEBUG_POISON, level_name


def parse_level(level: object, option: str = "debug") -> ProbeLevel | None:
    """Return the level that a name, number or ``ProbeLevel`` denotes, or None for ``off``.

    Args:
        level: ``"print"``, ``"PRINT_ONLY"``, ``2``, ``"2"``, ``ProbeLevel.PRINT``, ...
        option: The name of the option in an error.

    Raises:
        OptionValueError: There is no such level.
    """
    if isinstance(level, ProbeLevel):
        return level
    DEBUG.check(level, option)
    name = level_name(level)
    return None if name == "off" else ProbeLevel(name)


#: The parts of a call that can be shown.
OPERANDS: Final = ("inputs", "outputs", "scalars")

_PHASES: Final = ("before", "after")

#: ``7``, ``3:10``, ``:10``, ``3:``.
_RANGE: Final = re.compile(r"(?P<only>\d+)|(?P<start>\d*):(?P<stop>\d*)")


@dataclass(frozen=True)
class DebugPrinter:
    """A choice of the values that a program shows while it runs.

    A pattern is a glob that must match the whole name (``*softmax*``), or a regular expression that
    may match anywhere in it (``re:softmax|relu``). A call is selected if all conditions hold.

    Attributes:
        level: ``off``, ``save``, ``print``, ``names``, ``check``, ``check_nan``, ``stats``,
            ``compare`` or ``hook``; Inductor's names or numbers for the first four; or a
            ``ProbeLevel``.
        kernels: Pattern for the name of the called kernel or op.
        ops: Pattern for the ATen ops that a kernel implements, such as ``aten.addmm``.
        source: Pattern for the model's source line that a call comes from, ``file.py:12``. A bare
            file name matches in any directory.
        buffers: Pattern for the buffers to show. It matches names and qualified names of constants.
        calls: Call numbers in the order of the program's text: ``7``, ``3:10``.
        when: ``before``, ``after`` or ``both``. By default it depends on the level: ``names`` shows
            a call before, ``compare`` after, all other levels on both sides.
        operands: The parts of a call to show: any of ``inputs``, ``outputs``, ``scalars``.
        hook: A function that is called with a ``ProbeEvent`` at each selected call, in addition to
            the level's own action. ``wir.compile`` binds it; the program does not contain it.
        poison: If True, ``wir.compile`` fills new memory with NaN, so that reads of uninitialized
            memory produce NaN.
    """

    level: str | int | ProbeLevel = "print"
    kernels: str = "*"
    ops: str = "*"
    source: str = "*"
    buffers: str = "*"
    calls: str = ":"
    when: str = ""
    operands: tuple[str, ...] = OPERANDS
    hook: Callable[[Any], object] | None = None
    poison: bool = False

    def __post_init__(self) -> None:
        """Validate every option.

        Raises:
            OptionValueError: An option has an illegal value.
        """
        parse_level(self.level, "level")
        for option in ("kernels", "ops", "source", "buffers"):
            _check_pattern(option, getattr(self, option))
        calls: object = self.calls
        if not isinstance(calls, str) or _RANGE.fullmatch(calls) is None:
            expected = "a number or a range of calls, such as '7' or '3:10'"
            raise OptionValueError(option="calls", value=self.calls, expected=expected)
        if self.when not in ("", "both", *_PHASES):
            expected = "'before', 'after' or 'both'"
            raise OptionValueError(option="when", value=self.when, expected=expected)
        operands: object = self.operands
        if not isinstance(operands, tuple) or not set(operands) <= set(OPERANDS):
            expected = f"a tuple that contains only {', '.join(map(repr, OPERANDS))}"
            raise OptionValueError(option="operands", value=self.operands, expected=expected)
        hook: object = self.hook
        if hook is not None and not callable(hook):
            raise OptionValueError(option="hook", value=hook, expected="a function of an event")
        DEBUG_POISON.check(self.poison, "poison")

    @property
    def probe_level(self) -> ProbeLevel | None:
        """The level, or None for ``off``."""
        return parse_level(self.level, "level")

    @property
    def probe_levels(self) -> tuple[ProbeLevel, ...]:
        """The levels of a call's probes: none for ``off``, two if there is also a hook."""
        level = self.probe_level
        if level is None:
            return ()
        only = self.hook is None or level is ProbeLevel.HOOK
        return (level,) if only else (level, ProbeLevel.HOOK)

    def phases(self, level: ProbeLevel) -> tuple[str, ...]:
        """Return the sides of a call that get a probe of the given level."""
        if self.when:
            return _PHASES if self.when == "both" else (self.when,)
        match level:
            case ProbeLevel.NAMES:
                return ("before",)
            case ProbeLevel.COMPARE:
                return ("after",)
            case _:
                return _PHASES

    def has_call(self, number: int) -> bool:
        """Return whether ``calls`` includes the given call number."""
        match = _RANGE.fullmatch(self.calls)
        assert match is not None
        if match["only"]:
            return number == int(match["only"])
        start, stop = match["start"], match["stop"]
        return (not start or number >= int(start)) and (not stop or number < int(stop))


def _check_pattern(option: str, pattern: object) -> None:
    if not isinstance(pattern, str) or not pattern:
        expected = "a glob such as '*softmax*', or 're:' and a regular expression"
        raise OptionValueError(option=option, value=pattern, expected=expected)
    if pattern.startswith("re:"):
        try:
            re.compile(pattern[3:])
        except re.error as error:
            expected = f"a regular expression after 're:' ({error})"
            raise OptionValueError(option=option, value=pattern, expected=expected) from None


def make_printer(
    debug: DebugPrinter | str | int | None = None, filter_: str = "", *, poison: bool = False
) -> DebugPrinter | None:
    """Return the debug printer that the options or the environment ask for, or None.

    Args:
        debug: A printer, a level, or None to use the environment's.
        filter_: Pattern for kernel names. It applies only if ``debug`` is a level.
        poison: True to fill new memory with NaN at any level.

    Raises:
        OptionValueError: There is no such level, or the filter is not a valid pattern.
    """
    if isinstance(debug, DebugPrinter):
        return debug if debug.probe_level is not None or debug.poison else None
    level, pattern = debug, filter_
    if level is None:
        level, pattern = str(DEBUG.from_environment()), str(DEBUG_FILTER.from_environment())
        poison = poison or bool(DEBUG_POISON.from_environment())
    if parse_level(level) is None and not poison:
        return None
    return DebugPrinter(level, kernels=pattern or "*", poison=poison)
