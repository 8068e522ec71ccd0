"""Where in the model a line comes from: fx nodes, ATen ops, the user's source, the module."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from wrapper_ir.lines.origin import Frame, Origin

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["OriginTable"]

_FRAME: Final = re.compile(
    r'^\s*File "(?P<file>.*)", line (?P<line>\d+)(?:, in (?P<function>.*))?$'
)


class OriginTable:
    """Interns origins: equal ones get the same number."""

    def __init__(self) -> None:
        self._numbers: dict[Origin, int] = {}
        self._order: dict[int, dict[Any, int]] = {}

    @property
    def origins(self) -> tuple[Origin, ...]:
        """The table, in the order of the numbers."""
        return tuple(self._numbers)

    def of(self, nodes: Iterable[Any]) -> int | None:
        """Return the number of the joint origin of IR nodes, None where nothing is known."""
        found: dict[Any, None] = {}
        for node in nodes:
            found.update(dict.fromkeys(getattr(node, "origins", None) or ()))
        if not found:
            return None
        origin = _origin(sorted(found, key=self._position))
        return self._numbers.setdefault(origin, len(self._numbers))

    def _position(self, node: Any) -> tuple[int, str]:
        """Return where a node stands in its graph: sets of nodes have no order of their own."""
        graph = node.graph
        if id(graph) not in self._order:
            self._order[id(graph)] = {n: i for i, n in enumerate(graph.nodes)}
        return self._order[id(graph)].get(node, len(self._order[id(graph)])), node.name


def _origin(nodes: list[Any]) -> Origin:
    frames: dict[Frame, None] = {}
    for node in nodes:
        frames.update(dict.fromkeys(_frames(node.meta.get("stack_trace") or "")))
    modules = dict.fromkeys(filter(None, map(_module, nodes)))
    return Origin(
        nodes=tuple(node.name for node in nodes),
        ops=tuple(dict.fromkeys(filter(None, map(_op, nodes)))),
        frames=tuple(frames),
        module=next(reversed(modules), ""),
    )


def _op(node: Any) -> str:
    op = node.meta.get("original_aten") or node.target
    return str(op) if node.op == "call_function" else ""


def _module(node: Any) -> str:
    stack = node.meta.get("nn_module_stack") or {}
    names = [entry[0] for entry in stack.values() if isinstance(entry, tuple)]
    return _plain_path(str(names[-1])) if names else ""


@lru_cache(maxsize=4096)
def _plain_path(name: str) -> str:
    """Return the module's path as the user writes it: Dynamo says ``L['self'].layers[0]``."""
    name = re.sub(r"^L\['(\w+)'\]", r"\1", name)
    name = re.sub(r"\._modules\['([^']*)'\]|\['([^']*)'\]", r".\1\2", name)
    name = re.sub(r"\[(\d+)\]", r".\1", name)
    return name.removeprefix("self").lstrip(".")


@lru_cache(maxsize=4096)
def _frames(stack_trace: str) -> tuple[Frame, ...]:
    lines = stack_trace.splitlines()
    frames = []
    for index, text in enumerate(lines):
        match = _FRAME.match(text)
        if match is None:
            continue
        after = lines[index + 1].strip() if index + 1 < len(lines) else ""
        code = "" if _FRAME.match(after) else after
        frames.append(Frame(match["file"], int(match["line"]), match["function"] or "", code))
    return tuple(frames)
