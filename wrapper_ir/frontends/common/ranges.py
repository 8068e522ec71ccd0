"""Ranges of the symbols of an exported program, and what tracing assumed of them.

Torch traces with inputs whose sizes are neither 0 nor 1. Code for any larger size is right for
these two as well, and torch's own programs accept them, whatever the trace assumed: a range that
begins at 2 is one without a lower bound. Only the sizes of inputs are meant, not the integers among
the inputs, nor the numbers that a program reads from tensors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

import torch

from wrapper_ir.frontends.common.expressions import bound_of

if TYPE_CHECKING:
    from collections.abc import Mapping

Range: TypeAlias = tuple[int | None, int | None]
"""The inclusive bounds of a symbol; None where there is none."""

#: The least size that torch traces with.
_LEAST_TRACED: Final = 2


def exported_ranges(graph: torch.fx.Graph, ranges: Mapping[Any, Any]) -> dict[str, Range]:
    """Return the range of each symbol that an exported graph promises to accept, by name.

    Args:
        graph: The graph, whose placeholders have fake values.
        ranges: Torch's ranges, its ``range_constraints``.
    """
    sizes = {symbol for size in _input_sizes(graph) for symbol in size.node.expr.free_symbols}
    found = {}
    for symbol, values in ranges.items():
        lower, upper = bound_of(values.lower), bound_of(values.upper)
        found[str(symbol)] = 0 if symbol in sizes and lower == _LEAST_TRACED else lower, upper
    return found


def assume_traced_sizes(graph: torch.fx.Graph) -> None:
    """Have the graph's shape environment assume of inputs' sizes what it assumed in the trace.

    A program that was saved and loaded has its declared ranges there instead. With those, what
    compiles the graph would ask whether a size is 1, and rely on the answer.
    """
    for size in _input_sizes(graph):
        symbol, environment = size.node.expr, size.node.shape_env
        known = environment.var_to_range.get(symbol)
        if known is None or not (size.node.has_hint() and size.node.hint >= _LEAST_TRACED):
            continue
        if known.lower < _LEAST_TRACED:
            environment.constrain_symbol_range(symbol, _LEAST_TRACED, known.upper)


def _input_sizes(graph: torch.fx.Graph) -> list[Any]:
    """Return the symbolic sizes of a graph's inputs."""
    values = [node.meta.get("val") for node in graph.find_nodes(op="placeholder")]
    shapes: list[Any] = [value.shape for value in values if isinstance(value, torch.Tensor)]
    return [size for shape in shapes for size in shape if isinstance(size, torch.SymInt)]
