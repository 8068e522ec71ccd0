"""Inductor's assumptions on sizes beyond what an exported program promises.

Inductor may decide something by the example's sizes and note the decision as a guard. Under
``torch.compile`` a guard that fails means another compile. Ahead of time there is no other compile,
and the guard narrows the symbol's range without a word. Here the exported ranges stay as they were
declared, and each guard becomes a check of the program's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sympy

from wrapper_ir.frontends.common.expressions import to_scalar
from wrapper_ir.lines.control import BufferInput
from wrapper_ir.lines.program import FrozenMap, Program
from wrapper_ir.lines.symbols import AssertSymbol, BindSymbol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wrapper_ir.frontends.inductor.exported import Guard


def noted_guards(env: Any, names: Mapping[str, str]) -> list[Guard]:
    """Return what is noted in an environment of symbols (None: there is none), as conditions.

    All of it: of an exported program that is captured again, the notes of the first time count too.

    Args:
        env: The environment.
        names: What messages call some of its symbols; conditions call them as torch does.
    """
    return [
        (to_scalar(env.replace(guard.expr)), f"{_named(guard.expr, names)}, as Inductor assumed")
        for guard in (env.guards if env is not None else ())
        if not _is_checked_otherwise(guard)
    ]


def _named(expr: Any, names: Mapping[str, str]) -> Any:
    symbols = [each for each in expr.free_symbols if each.name in names]
    return expr.xreplace({each: sympy.Symbol(names[each.name]) for each in symbols})


def with_guards(program: Program, guards: Sequence[Guard]) -> Program:
    """Return the program with a check for each condition, as soon as the sizes are known."""
    distinct = dict(reversed(guards))
    checks = [
        AssertSymbol(condition, message)
        for condition, message in reversed(distinct.items())
        if condition is not True
    ]
    if not checks:
        return program
    inputs = {value.name for value in program.inputs if isinstance(value, BufferInput)}
    bound = [
        index
        for index, line in enumerate(program.body)
        if isinstance(line, BindSymbol) and line.source.buffer in inputs
    ]
    at = bound[-1] + 1 if bound else 0
    return program.replace(body=(*program.body[:at], *checks, *program.body[at:]))


def _is_checked_otherwise(guard: Any) -> bool:
    """Return whether a guard only decided a convolution's layout, which is asserted."""
    place = getattr(getattr(guard, "sloc", None), "framework_loc", None)
    file, function = getattr(place, "filename", ""), getattr(place, "name", "")
    return file.endswith("_subclasses/fake_impls.py") and function == "conv"


def with_exported_ranges(program: Program, ranges: Mapping[Any, Any]) -> Program:
    """Return the program with the symbols' ranges as they were exported."""
    declared = {str(symbol): values for symbol, values in ranges.items()}
    symbols = {}
    for name, info in program.symbols.items():
        if name in declared:
            lower, upper = declared[name].lower, declared[name].upper
            info = type(info)(info.kind, _bound(lower), _bound(upper), info.hint, info.unbacked)
        symbols[name] = info
    return program.replace(symbols=FrozenMap(symbols))


def _bound(value: Any) -> int | None:
    return int(value) if getattr(value, "is_Integer", isinstance(value, int)) else None
