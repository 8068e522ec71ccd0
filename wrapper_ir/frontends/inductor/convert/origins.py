"""Where in the model a line comes from: fx nodes, ATen ops, the user's source, the module."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wrapper_ir.frontends.common.origins import origin_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wrapper_ir.lines.origin import Origin

__all__ = ["OriginTable"]


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
