"""Origins of lines in the model: fx nodes, ATen ops, the user's source, the module."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from wrapper_ir.frontends.common.origins import origin_of
from wrapper_ir.frontends.inductor.compat import ir

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wrapper_ir.lines.origin import Origin

__all__ = ["OriginTable", "op_called"]

_DOTTED: Final = re.compile(r"[\w.]+")


def op_called(name: str, node: Any) -> str:
    """Return what errors call an op: Inductor's name for it, if that is a name.

    An op that Inductor put in the place of a pattern is called by the function that did so, with
    all that was matched, and by where that function lies in memory.
    """
    if _DOTTED.fullmatch(name):
        return name
    caller = node.inputs[0] if isinstance(node, ir.MultiOutput) else node
    called = str(getattr(caller, "op_overload", None) or "")
    return f"torch.ops.{called}" if _DOTTED.fullmatch(called) else "a library op"


class OriginTable:
    """Interns origins: equal ones get the same number."""

    def __init__(self) -> None:
        self._numbers: dict[Origin, int] = {}
        self._order: dict[int, dict[Any, int]] = {}

    @property
    def origins(self) -> tuple[Origin, ...]:
        """The table, in the order of the numbers."""
        return tuple(self._numbers)

    def of(self, nodes: Iterable[Any], values: tuple[str, ...] = ()) -> int | None:
        """Return the number of the joint origin of IR nodes, None where nothing is known.

        Args:
            nodes: The IR nodes.
            values: Of a call: the fx nodes whose values it leaves in buffers.
        """
        found: dict[Any, None] = {}
        for node in nodes:
            found.update(dict.fromkeys(getattr(node, "origins", None) or ()))
        if not found:
            return None
        origin = origin_of(sorted(found, key=self._position), values)
        return self._numbers.setdefault(origin, len(self._numbers))

    def _position(self, node: Any) -> tuple[int, str]:
        """Return where a node stands in its graph: sets of nodes have no order of their own."""
        graph = node.graph
        if id(graph) not in self._order:
            self._order[id(graph)] = {n: i for i, n in enumerate(graph.nodes)}
        return self._order[id(graph)].get(node, len(self._order[id(graph)])), node.name
