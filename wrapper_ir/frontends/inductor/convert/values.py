"""Torch's dtypes, layouts, symbols and nodes as ours."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import sympy
import torch

from wrapper_ir.frontends.common.expressions import bound_of
from wrapper_ir.frontends.common.ops import to_device
from wrapper_ir.frontends.inductor.compat import SymT, ir, symbol_is_type
from wrapper_ir.frontends.inductor.errors import UnsupportedLineError
from wrapper_ir.graphs.nodes import changes_in_place, returns_view
from wrapper_ir.lines.layout import DType, Layout
from wrapper_ir.lines.program import SymbolInfo, SymbolKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@cache
def to_dtype(dtype: torch.dtype) -> DType:
    """Return the IR's element type for one of torch's."""
    try:
        return DType.from_torch_name(str(dtype))
    except KeyError:
        raise UnsupportedLineError("element type", str(dtype), "the IR has no such type") from None


def tensor_layout(tensor: torch.Tensor) -> Layout:
    """Return the layout of a real tensor, counted from its first element."""
    like = tensor
    if tensor.is_mkldnn:  # packed by oneDNN or MKL: its own strides say nothing
        like = torch.empty(tensor.size(), dtype=tensor.dtype, device="meta")
    dtype, device = to_dtype(tensor.dtype), to_device(tensor.device)
    return Layout(dtype, device, tuple(tensor.size()), tuple(like.stride()))


# Torch's facts about its symbols: kind, range, hint.


def symbol_info(symbol: sympy.Symbol, graph: Any) -> SymbolInfo:
    """Return the kind, range and hint of one of torch's symbols."""
    shape_env = graph.sizevars.shape_env
    unbacked = symbol_is_type(symbol, (SymT.UNBACKED_INT, SymT.UNBACKED_FLOAT))
    if symbol_is_type(symbol, (SymT.FLOAT, SymT.UNBACKED_FLOAT)):
        return SymbolInfo(SymbolKind.FLOAT, unbacked=unbacked)
    values = shape_env.var_to_range.get(symbol)
    value = known_values(graph).get(symbol)
    return SymbolInfo(
        SymbolKind.INT,
        bound_of(values.lower) if values is not None else None,
        bound_of(values.upper) if values is not None else None,
        int(value) if isinstance(value, (int, sympy.Integer)) else None,
        unbacked,
    )


def known_values(graph: Any) -> Mapping[sympy.Symbol, Any]:
    """Return the numbers that symbols stood for when a graph was traced."""
    values: Mapping[sympy.Symbol, Any] = graph.sizevars.backed_var_to_val
    return values


# Origins of lines in the model: the fx nodes that they come from.


_DOTTED: Final = re.compile(r"[\w.]+")


def op_called(name: str, node: Any) -> str:
    """Return the name of an op in errors: Inductor's name for it, if that is a name.

    For an op that replaces a matched pattern, Inductor's "name" shows the replacing function with
    its address and everything that was matched.
    """
    if _DOTTED.fullmatch(name):
        return name
    caller = node.inputs[0] if isinstance(node, ir.MultiOutput) else node
    called = str(getattr(caller, "op_overload", None) or "")
    return f"torch.ops.{called}" if _DOTTED.fullmatch(called) else "a library op"


# The fx nodes whose values buffers hold after a call, where that is certain.
#
# Inductor names a single node whose value a buffer holds (``origin_node``), as best it can. For a
# buffer that is changed in place that is the last change: an op that returns a changed copy of its
# argument, such as ``scatter_add``, becomes two calls, and only the second leaves its value.


def held_values(nodes: Iterable[Any], real_names: Mapping[str, str], graph: Any) -> dict[str, str]:
    """Return the names of the fx nodes whose values buffers hold after a call of some IR nodes.

    ``real_names`` gives for the name of a mutation's output that of the buffer that it mutates.
    """
    # A value that stays in registers may still have a pointer among the kernel's parameters.
    unwritten = {*real_names.values(), *graph.removed_buffers, *graph.inplaced_to_remove}
    names: dict[str, str] = {}
    for node in nodes:
        for buffer in (node, *(getattr(node, "mutation_outputs", None) or ())):
            name = _name(buffer)
            real = real_names.get(name, name)
            if real != name:
                held = _changed_value(node, graph.name_to_buffer.get(real))
            else:
                held = None if name in unwritten else _own_value(node)
            names.pop(real, None)  # the last of the call's nodes counts
            if held is not None:
                names[real] = held.name
    return names


def read_values(names: Iterable[str], real_names: Mapping[str, str], graph: Any) -> tuple[str, ...]:
    """Return the names of the fx nodes whose values buffers hold that are written only once.

    They are empty strings for other buffers, for constants, and for values that no node has. The
    tuple is empty if there is only one buffer, or nothing is known.
    """
    names = tuple(names)
    if len(set(filter(None, names))) < 2:  # nothing to tell apart
        return ()
    changed = {*real_names.values(), *graph.mutated_buffers, *graph.mutated_inputs}
    values = tuple("" if name in changed else _made_value(name, graph) for name in names)
    return values if any(values) else ()


def _made_value(name: str, graph: Any) -> str:
    if name in graph.graph_inputs:
        return name
    held = _own_value(graph.name_to_buffer.get(name))
    return "" if held is None else held.name


def _own_value(buffer: Any) -> torch.fx.Node | None:
    """Return the fx node whose value a buffer is made for, if that changes nothing in place."""
    node = getattr(buffer, "origin_node", None)
    return None if node is None or changes_in_place(node) else node


def _name(buffer: Any) -> str:
    try:
        return str(buffer.get_name())
    except (AttributeError, NotImplementedError, AssertionError):
        return ""  # it makes no buffer of its own


def _changed_value(node: Any, base: Any) -> torch.fx.Node | None:
    """Return the only fx node that changes a buffer, if it changes all of it and not a view.

    ``node`` is the IR node that does it. ``base`` is the buffer, or None if it is not an IR node,
    such as an input.
    """
    last = getattr(base, "origin_node", None)
    if last is not None and not changes_in_place(last):
        return last if last in (getattr(node, "origins", None) or ()) else None
    changing = [n for n in getattr(node, "origins", None) or () if changes_in_place(n)]
    if len(changing) != 1:
        return None
    (held,) = changing
    value, target = held.meta.get("val"), held.args[0] if held.args else None
    if not isinstance(value, torch.Tensor) or not isinstance(target, torch.fx.Node):
        return None
    return None if _is_view(target) else held


def _is_view(node: torch.fx.Node) -> bool:
    """Return whether a node returns a view of another one's memory, as far as its schema tells."""
    if not isinstance(node.target, torch._ops.OpOverload):
        return node.op not in ("placeholder", "get_attr")
    return returns_view(node)
