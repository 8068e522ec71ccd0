"""The emitted function with a clock round its checks of inputs, to measure what they take.

All that compares inputs is called through variables of the module (``CHECKS``). While a call is
measured, these hold functions that read the clock, so that programs that nobody measures have no
trace of it. Comparisons that are written out, of symbols with their ranges and of addresses, are
not seen.
"""

from __future__ import annotations

import inspect
import time
from threading import RLock, get_ident
from types import FunctionType
from typing import TYPE_CHECKING, Any

from wrapper_ir.emitters.python.entry import CHECKS

if TYPE_CHECKING:
    from collections.abc import Callable

    #: Takes a list of inputs, which it empties; returns results, and the nanoseconds of checks.
    Clocked = Callable[[list[Any]], tuple[Any, int]]

_clock = time.perf_counter_ns

#: Held while the variables of a module are replaced, which its graphs share.
_replacing = RLock()


def clock_checks(call: object) -> Clocked | None:
    """Return a program's ``call`` with a clock, or None if it is not the function of a module."""
    function = inspect.unwrap(call) if callable(call) else None
    if not isinstance(function, FunctionType):
        return None
    variables = function.__globals__
    # What a module calls `call` may have others round it by now: decorators, and what restores
    # values that the program does not see.
    outermost = variables.get("call")
    if not callable(outermost) or inspect.unwrap(outermost) is not function:
        return None
    run: Any = call

    def clocked(args: list[Any]) -> tuple[Any, int]:
        with _replacing:
            noted: list[int] = []
            checks: dict[str, Any] = {name: variables[name] for name in CHECKS if name in variables}
            variables.update({name: _timed(check, noted) for name, check in checks.items()})
            try:
                results = run(args)
            finally:
                variables.update(checks)
        return results, max(0, sum(noted))

    return clocked


def _timed(check: Callable[..., object], noted: list[int]) -> Callable[..., object]:
    """Return a check that notes its nanoseconds on this thread; others may call it meanwhile."""
    thread = get_ident()

    def timed(*args: object, **options: object) -> object:
        if get_ident() != thread:
            return check(*args, **options)
        first = _clock()  # twice, to know what reading it takes
        began = _clock()
        found = check(*args, **options)
        noted.append(_clock() - began - (began - first))
        return found

    return timed
