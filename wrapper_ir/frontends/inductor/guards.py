"""What Inductor assumed of sizes beyond what an exported program promises.

Inductor may decide something by the example's sizes and note the decision as a guard. Under
``torch.compile`` a guard that fails means another compile. Ahead of time there is no other compile,
and the guard narrows the symbol's range without a word. Here the exported ranges stay as they were
declared, and each guard becomes a check of the program's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wrapper_ir.frontends.common.expressions import to_scalar
from wrapper_ir.lines.program import FrozenMap, Program
from wrapper_ir.lines.symbols import AssertSymbol, BindSymbol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["guards_of", "with_exported_ranges", "with_guards"]


def guards_of(exported: Any) -> list[Any]:
    """Return the live list of guards of an exported program's shapes; empty if all are static."""
    for node in exported.graph.nodes:
        mode = getattr(node.meta.get("val"), "fake_mode", None)
        if mode is not None and mode.shape_env is not None:
            return mode.shape_env.guards  # type: ignore[no-any-return]  # torch's list
    return []


def with_guards(program: Program, guards: Sequence[Any]) -> Program:
    """Return the program with a check for each guard, after the sizes are known."""
    checks = tuple(
        AssertSymbol(to_scalar(guard.expr), f"{guard.expr}, as Inductor assumed")
        for guard in guards
        if not _is_checked_otherwise(guard)
    )
    if not checks:
        return program
    bound = [i for i, line in enumerate(program.body) if isinstance(line, BindSymbol)]
    at = bound[-1] + 1 if bound else 0
    return program.replace(body=(*program.body[:at], *checks, *program.body[at:]))


def _is_checked_otherwise(guard: Any) -> bool:
    """Whether a guard only decided the layout of a convolution's result, which is asserted."""
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
