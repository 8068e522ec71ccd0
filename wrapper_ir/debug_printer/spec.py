"""The debug printer's configuration: what to do, at which calls, with which operands.

It is given in code, or by the environment where the code gives none.
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
    """Return the level that a name, a number or a ``ProbeLevel`` stands for; None for off.

    Args:
        level: ``"print"``, ``"PRINT_ONLY"``, ``2``, ``"2"``, ``ProbeLevel.PRINT``, ...
        option: What an error calls the option.

    Raises:
        OptionValueError: There is no such level.
    """
    if isinstance(level, ProbeLevel):
        return level
    DEBUG.check(level, option)
    name = level_name(level)
    return None if name == "off" else ProbeLevel(name)


#: Parts of a call that can be looked at.
OPERANDS: Final = ("inputs", "outputs", "scalars")

_PHASES: Final = ("before", "after")

#: ``7``, ``3:10``, ``:10``, ``3:``.
_RANGE: Final = re.compile(r"(?P<only>\d+)|(?P<start>\d*):(?P<stop>\d*)")


@dataclass(frozen=True)
class DebugPrinter:
    """The values that a program shows while it runs.

    A pattern is a glob that must match as a whole (``*softmax*``), or a regular expression to be
    found anywhere (``re:softmax|relu``). Conditions that are given must all hold.

    Attributes:
        level: ``off``, ``save``, ``print``, ``names``, ``check``, ``check_nan``, ``stats``,
            ``compare`` or ``hook``, one of Inductor's names or numbers for the first four, or a
            ``ProbeLevel``.
        kernels: Pattern for the name of the kernel or op that is called.
        ops: Pattern for the ATen ops that a kernel implements, such as ``aten.addmm``.
        source: Pattern for the line of the model that a call comes from, ``file.py:12``; a bare
            file name matches in any directory.
        buffers: Pattern for the buffers to show, by name or, of constants, by qualified name.
        calls: Numbers of calls, in the order of the program's text: ``7``, ``3:10``.
        when: ``before``, ``after`` or ``both``; by default what the level needs: ``names`` before,
            ``save``, ``print``, ``stats`` and both checks on both sides, ``compare`` after.
        operands: What to show of a call: any of ``inputs``, ``outputs``, ``scalars``.
        hook: Called with a ``ProbeEvent`` at each chosen call, besides what the level does. It is
            bound by ``wir.compile``, and no part of the program.
        poison: Whether ``wir.compile`` fills new memory with NaN, so that what reads memory before
            it is written gives NaN too.
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
        """Check every option.

        Raises:
            OptionValueError: One of them is not legal.
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
            expected = f"some of {', '.join(map(repr, OPERANDS))}, as a tuple"
            raise OptionValueError(option="operands", value=self.operands, expected=expected)
        hook: object = self.hook
        if hook is not None and not callable(hook):
            raise OptionValueError(option="hook", value=hook, expected="a function of an event")
        DEBUG_POISON.check(self.poison, "poison")

    @property
    def probe_level(self) -> ProbeLevel | None:
        """Return the level; None for off."""
        return parse_level(self.level, "level")

    @property
    def probe_levels(self) -> tuple[ProbeLevel, ...]:
        """Return the levels of a call's probes: none for off, two where there is a hook besides."""
        level = self.probe_level
        if level is None:
            return ()
        only = self.hook is None or level is ProbeLevel.HOOK
        return (level,) if only else (level, ProbeLevel.HOOK)

    def phases(self, level: ProbeLevel) -> tuple[str, ...]:
        """Return the sides of a call on which there are probes of a level."""
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
        """Return whether the call of that number is among ``calls``."""
        found = _RANGE.fullmatch(self.calls)
        assert found is not None
        if found["only"]:
            return number == int(found["only"])
        start, stop = found["start"], found["stop"]
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
    """Return the debug printer that an option asks for, else the environment; None for none.

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
        level, pattern = str(DEBUG.from_environment()), str(DEBUG_FILTER.from_environment())
        poison = poison or bool(DEBUG_POISON.from_environment())
    if parse_level(level) is None and not poison:
        return None
    return DebugPrinter(level, kernels=pattern or "*", poison=poison)
