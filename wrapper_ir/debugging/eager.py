"""Comparison of a program's calls with eager execution of its graph, value by value.

The graph runs node by node. If a buffer of the program holds a node's value, the two are compared
and the run continues with the program's value. So rounding errors do not accumulate, later kernels
are not blamed for an earlier wrong one, and random numbers are those of the program.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor
from torch.fx import GraphModule, Interpreter, Node
from torch.utils._pytree import tree_leaves

from wrapper_ir.debugging.rounding import (
    ROUNDINGS,
    UNMEASURED,
    Indices,
    few_differ,
    rounding,
    tolerance_for,
)
from wrapper_ir.errors import WrapperIRError
from wrapper_ir.graphs.nodes import changes_in_place, written_items
from wrapper_ir.runtime.probes import difference, private_copy


class OtherGraphError(WrapperIRError):
    """A graph is not the source of a program. Field: ``reason``."""

    code = "WIR1516"
    template = "this graph is not the source of the program: {reason}"
    default_hint = "record() keeps the graph of each program: programs.graphs[0]"


# Facts about nodes, needed before eager results can serve as a reference.

_RANDOM: Final = "depend on random numbers"
_UNSET: Final = "depend on uninitialized memory"

#: Inductor's own random ops, which have no tag.
_RANDOM_PRIMS: Final = ("inductor_seed", "inductor_rand")


def not_repeatable(node: Node) -> str:
    """Return the reason why rerunning a node may give a different value, or an empty string."""
    tags = getattr(node.target, "tags", ())
    name = str(node.target).partition(".")[2]
    is_random = torch.Tag.nondeterministic_seeded in tags and not _drops_nothing(node)
    if is_random or name.startswith(_RANDOM_PRIMS):
        return _RANDOM
    return _UNSET if name.startswith(("empty", "new_empty")) else ""


def _drops_nothing(node: Node) -> bool:
    """Return whether an op with a dropout argument, such as attention, drops no elements."""
    schema = getattr(node.target, "_schema", None)
    for position, arg in enumerate(schema.arguments if schema is not None else ()):
        if arg.name == "dropout_p":
            positional = node.args[position] if position < len(node.args) else arg.default_value
            return bool(node.kwargs.get(arg.name, positional) == 0)
    return False


_VALUE: Final = re.compile(r"(?P<node>[^\[\]]+)(?P<path>(\[\d+\])*)")

_FAILED: Final = "cannot be computed eagerly"
_OTHER: Final = "have a different shape or type in the graph"
_NO_NODE: Final = "come from nodes that the graph lacks"


@dataclass(frozen=True)
class Saved:
    """A tensor that a call wrote.

    Attributes:
        position: That in the order of writing.
        load: Reads it.
        after: The last in-place op of the call's on the value, if there is one. The buffer holds
            the value before it or after it: Inductor may write what it gives to other memory.
    """

    position: int
    load: Callable[[], Tensor]
    after: str = ""


#: The positions of what is compared after all that calls wrote.
_AT_THE_END: Final = sys.maxsize


@dataclass(frozen=True)
class Difference:
    """A tensor that differs from eager execution.

    Attributes:
        position: That of the saved tensor; for an input or a result, larger than all of those.
        node: The name of the node.
        words: A description of the difference.
        expected: Eager's value.
        part: The result, such as ``results[0]``; empty for others.
    """

    position: int
    node: str
    words: str
    expected: Tensor
    part: str = ""


class Beside(Interpreter):
    """An interpreter that compares the values of a graph's nodes with a program's tensors.

    ``saved`` has the program's tensors by the graph value they correspond to, ``relu`` or
    ``sort[1]``. ``constants`` override the module's. The tolerance is relative and absolute, and by
    default depends on the type and on the ops involved.
    """

    def __init__(
        self,
        module: GraphModule,
        saved: Mapping[str, Sequence[Saved]],
        constants: Mapping[str, Tensor],
        tolerance: tuple[float, float] | None = None,
    ) -> None:
        super().__init__(module, garbage_collect_values=False)
        self._saved: dict[str, list[tuple[Indices, Saved]]] = {}
        self._nodes: dict[str, Node] = {}
        #: What is compared after a later node than its own, as it did not hold the value of that.
        self._later: dict[str, list[tuple[str, Indices, Saved]]] = {}
        for value, tensors in saved.items():
            name, path = _parsed(value)
            self._saved.setdefault(name, []).extend((path, each) for each in tensors)
        self._constants = constants
        self._tolerance = tolerance
        self._exact: set[Node] = set()
        self._rounded: set[Node] = set()
        self._unknown: dict[Node, str] = {}
        self._results: Sequence[Any] = ()
        self._afterwards: Mapping[str, Any] = {}
        #: Tensors that were written in place, by the address of their memory. They stay alive, so
        #: that no other memory gets the same address.
        self._changed: dict[int, Tensor] = {}
        self.differences: list[Difference] = []
        self.skipped: Counter[str] = Counter()
        self.compared: int = 0

    def compare(
        self,
        arguments: Sequence[Any],
        results: Sequence[Any] = (),
        afterwards: Mapping[str, Any] | None = None,
    ) -> None:
        """Run the graph, and compare.

        Args:
            arguments: The graph's inputs, which it may write to.
            results: The program's results; compared if the graph has as many.
            afterwards: What the program left in its inputs, by the names of placeholders.
        """
        self._results, self._afterwards = results, afterwards or {}
        self._nodes = {node.name: node for node in self.graph.nodes}
        missing = self._saved.keys() - self._nodes.keys()
        if len(missing) > len(self._saved) // 2:
            raise OtherGraphError(reason=f"it has no node {min(missing)!r}")
        self.skipped[_NO_NODE] += sum(len(self._saved[name]) for name in missing)
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            self.run(*arguments, enable_io_processing=False)

    # The run.

    def fetch_attr(self, target: str) -> Any:
        """Return a private copy of a tensor of the model, since the run may write to it."""
        value = self._constants.get(target)
        tensor = super().fetch_attr(target) if value is None else value
        return private_copy(tensor) if isinstance(tensor, Tensor) else tensor

    def run_node(self, node: Node) -> Any:
        """Run a node, compare its value, and continue with the program's value."""
        if node.op == "output":
            self._compare_ends(node)
        reason = not_repeatable(node)
        for each in node.all_input_nodes:
            reason = reason or self._unknown.get(each, "")
        try:
            value = super().run_node(node)
        except Exception:
            if node.op == "output":
                return None
            value, reason = None, reason or _FAILED
        if items := written_items(node):
            value = self.map_nodes_to_values(items, node)
        self._note_kind(node, value, reason)
        self._note_change(node)
        for path, saved in self._saved.get(node.name, ()):
            got = saved.load()
            if saved.after and not self._is_met(node, value, path, got):
                self._later.setdefault(saved.after, []).append((node.name, path, saved))
            else:
                value = self._meet(node, value, path, got, saved.position)
        for name, path, saved in self._later.get(node.name, ()):
            written = self._nodes[name]
            value_then = self.env.get(written)
            self.env[written] = self._meet(written, value_then, path, saved.load(), saved.position)
        return value

    def _note_kind(self, node: Node, value: Any, reason: str) -> None:
        """Record whether a node's value is unknown, exact or rounded."""
        if reason:
            self._unknown[node] = reason
        elif node.op in ("placeholder", "get_attr"):
            self._exact.add(node)
        elif any(_is_floating(v) for v in _parts(value)) or self._from_rounded(node):
            self._rounded.add(node)

    def _from_rounded(self, node: Node) -> bool:
        return any(each in self._rounded for each in node.all_input_nodes)

    def _note_change(self, node: Node) -> None:
        """Record memory that a node writes in place: values known to be in it are stale."""
        if changes_in_place(node):
            for each in node.all_input_nodes:
                self._changed.update({_memory(v): v for v in _parts(self.env.get(each))})

    # Comparing with a tensor of the program.

    def _is_met(self, node: Node, value: Any, path: Indices, got: Tensor) -> bool:
        """Return whether a tensor of the program holds the value of a node, as far as is known."""
        part = _part(value, path)
        is_known = node not in self._unknown and _are_alike(part, got)
        return not (is_known and isinstance(part, Tensor) and self._words(node, part, got, path))

    def _meet(self, node: Node, value: Any, path: Indices, got: Tensor, position: int) -> Any:
        """Compare a tensor of the program with a node's value, and return what to go on with."""
        part = _part(value, path)
        reason = self._unknown.get(node)
        if reason is None and not _are_alike(part, got):
            self.skipped[_OTHER] += 1
            return value
        if reason is None:
            self._compare(node, part, got, path, position)
        else:
            self.skipped[reason] += 1
        return self._adopt(node, value, path, got)

    def _compare(
        self,
        node: Node,
        part: Tensor,
        got: Tensor,
        path: Indices = (),
        position: int = _AT_THE_END,
        name: str = "",
    ) -> None:
        self.compared += 1
        words = self._words(node, part, got, path)
        if words:
            expected = private_copy(part)
            self.differences.append(Difference(position, node.name, words, expected, name))

    def _compare_ends(self, output: Node) -> None:
        """Compare what the run leaves: inputs that it may have written to, and results."""
        for node in self.graph.find_nodes(op="placeholder"):
            got, value = self._afterwards.get(node.name), self.env.get(node)
            if isinstance(value, Tensor) and isinstance(got, Tensor) and _are_alike(value, got):
                self._compare(node, value, got)
        returned = tree_leaves(output.args[0], is_leaf=lambda each: each is None)
        if len(returned) != len(self._results):
            return
        for position, (node, got) in enumerate(zip(returned, self._results, strict=True)):
            value = self.env.get(node) if isinstance(node, Node) else None
            if not isinstance(value, Tensor) or not isinstance(got, Tensor):
                continue
            if node not in self._unknown and _are_alike(value, got):
                self._compare(node, value, got, name=f"results[{position}]")

    def _words(self, node: Node, part: Tensor, got: Tensor, path: Indices) -> str:
        if self._tolerance is not None:
            return difference(got, part, self._tolerance)
        dtype = part.dtype
        if not _is_floating(part):
            words = difference(got, part)
            is_rounded = self._from_rounded(node)
            return "" if words and is_rounded and few_differ(got, part) else words
        if part.element_size() == 1:  # torch cannot compare float8
            got, part = got.float(), part.float()
        relative, absolute = tolerance_for(part, dtype)
        words = difference(got, part, (relative, absolute))
        if not words:
            return ""
        known = {each: self.env[each] for each in self._exact if self._is_current(each)}
        error = rounding(node, part, path, known)
        slack = UNMEASURED * absolute if error is None else ROUNDINGS * error
        return difference(got, part, (relative, absolute + slack))

    def _is_current(self, node: Node) -> bool:
        value = self.env.get(node)
        return node in self.env and not any(_memory(v) in self._changed for v in _parts(value))

    def _adopt(self, node: Node, value: Any, path: Indices, got: Tensor) -> Any:
        """Continue with the program's value, copied into the same memory since views may exist."""
        if node in self._unknown:
            return self._known_now(node, value, path, got)
        part = _part(value, path)
        if _has_own_elements(part):
            part.copy_(got)
        if not path:
            self._exact.add(node)
            self._rounded.discard(node)
        return value

    def _known_now(self, node: Node, value: Any, path: Indices, got: Tensor) -> Any:
        if path and not (isinstance(value, (list, tuple)) and len(path) == 1):
            return value
        if not path:
            del self._unknown[node]
            self._exact.add(node)
            return got
        parts = list(value)
        parts[path[0]] = got
        if {p for p, _ in self._saved[node.name]} >= {(i,) for i in range(len(parts))}:
            self._unknown.pop(node)
            self._exact.add(node)
        return parts


def _parsed(value: str) -> tuple[str, Indices]:
    match = _VALUE.fullmatch(value)
    if match is None:
        return value, ()
    return match["node"], tuple(map(int, re.findall(r"\d+", match["path"])))


def _part(value: Any, path: Indices) -> Any:
    """Return the value at a path; None if there is none."""
    for index in path:
        value = value[index] if isinstance(value, (list, tuple)) and index < len(value) else None
    return value


def _parts(value: Any) -> list[Tensor]:
    if isinstance(value, (list, tuple)):
        return [part for item in value for part in _parts(item)]
    return [value] if isinstance(value, Tensor) else []


def _memory(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr() if tensor.layout is torch.strided else 0


def _is_floating(value: Any) -> bool:
    return isinstance(value, Tensor) and (value.is_floating_point() or value.is_complex())


def _are_alike(value: Any, got: Tensor) -> bool:
    is_same = isinstance(value, Tensor) and value.shape == got.shape and value.dtype is got.dtype
    return is_same and value.layout is got.layout is torch.strided


def _has_own_elements(tensor: Tensor) -> bool:
    sizes = zip(tensor.stride(), tensor.shape, strict=True)
    return not any(step == 0 for step, size in sizes if size > 1)
