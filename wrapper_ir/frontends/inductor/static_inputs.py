"""Which inputs of a graph stay at one address from call to call: what Dynamo says of parameters.

AOTAutograd has the positions of such inputs for the graph that it traces. Of a backward's inputs it
has no positions, but each has the description of the input of that graph that it is, if it is one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from wrapper_ir.devices import kind_of
from wrapper_ir.frontends.inductor import compat

if TYPE_CHECKING:
    from collections.abc import Collection

#: Descriptions of the static inputs of a forward, for its backward.
_of_forwards: WeakKeyDictionary[Any, Collection[Any]] = WeakKeyDictionary()


def static_inputs(graph: Any) -> set[str]:
    """Return the names of the inputs of Inductor's graph that are static.

    Only those on devices whose calls can be captured count, since nothing else asks.
    """
    trace = compat.TracingContext.try_get()
    if trace is None or trace.fw_metadata is None:
        return set()
    places = graph.module.graph.find_nodes(op="placeholder")
    described = [node.meta.get("desc") for node in places]
    if graph.is_backward:
        wanted = _of_forwards.get(trace, ())
        positions = [n for n, each in enumerate(described) if each in wanted]
    else:
        positions = list(trace.fw_metadata.static_input_indices)
        _of_forwards[trace] = {described[n] for n in positions} - {None}
    names = [graph.graph_input_names[n] for n in positions]
    return {name for name in names if _can_be_captured(graph.graph_inputs.get(name))}


def _can_be_captured(value: Any) -> bool:
    if not isinstance(value, compat.ir.TensorBox):
        return False
    return kind_of(value.get_layout().device.type).captures
