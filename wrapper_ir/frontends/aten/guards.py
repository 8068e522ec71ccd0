"""Guards of tracing on sizes, besides their ranges: relations become checks.

A graph is made for example sizes. Where its course depended on a relation of theirs (a size is
even, two sizes differ), torch has noted the relation as a guard. Under ``torch.compile`` a guard
that fails means another graph; here there is one, which says that it is not for these sizes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sympy
import torch
from sympy.core.relational import Relational

from wrapper_ir.lines.expr import UnsupportedExprError, free_symbols
from wrapper_ir.lines.symbols import AssertSymbol

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wrapper_ir.frontends.aten.state import State

__all__ = ["guards_of"]


def guards_of(module: torch.fx.GraphModule, state: State) -> Iterator[AssertSymbol]:
    """Yield a check for each relation that the inputs' sizes must be in."""
    seen = set()
    for guard in _noted(module):
        expr = getattr(guard, "expr", None)
        if not isinstance(expr, sympy.Basic) or _is_range(expr) or _is_about_layout(guard):
            continue
        try:
            condition = state.scalar(expr)
        except UnsupportedExprError:
            continue  # torch could say it, but no program: the ops check what they need
        is_known = isinstance(condition, sympy.Basic) and state.is_bound(condition)
        if is_known and condition not in seen and free_symbols(condition):
            seen.add(condition)
            yield AssertSymbol(condition, f"{condition}, as when the graph was made")


def _noted(module: torch.fx.GraphModule) -> list[Any]:
    """Return torch's guards; none where all sizes are numbers, or the graph was loaded."""
    for node in module.graph.nodes:
        value = node.meta.get("val")
        for size in value.shape if isinstance(value, torch.Tensor) else (value,):
            if isinstance(size, torch.SymInt):
                return list(getattr(size.node.shape_env, "guards", ()))
    return []


def _is_range(expr: sympy.Basic) -> bool:
    """Return whether an expression compares one symbol with a number, as ranges do."""
    return (
        isinstance(expr, Relational)
        and {type(expr.lhs).is_Symbol, type(expr.rhs).is_Symbol} == {True, False}
        and len(expr.free_symbols) == 1
        and (expr.lhs.is_number or expr.rhs.is_number)
    )


def _is_about_layout(guard: Any) -> bool:
    """Return whether a guard only decided the layout predicted for a convolution's result."""
    place = getattr(getattr(guard, "sloc", None), "framework_loc", None)
    file, function = getattr(place, "filename", ""), getattr(place, "name", "")
    return str(file).endswith("_subclasses/fake_impls.py") and function == "conv"
