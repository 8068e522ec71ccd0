"""What differs between the releases of torch that are supported, and which release brought it.

Each function gives the same answer on all of them. Lines that only some releases have need none:
they are told apart by the names of their classes (``convert.lines``).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from wrapper_ir.frontends.inductor.compat import inductor_config, ir

__all__ = ["Choice", "checked_op", "choice_of", "processor", "stream_index"]

_CONDITIONAL: Any = getattr(ir, "Conditional", ())
_SWITCH: Any = getattr(ir, "Switch", ())


class Choice(NamedTuple):
    """What a node of Inductor's chooses by, and between what.

    Attributes:
        selector: The node of a truth value, or else of the number of a branch.
        branches: The subgraphs. Of a truth value that for true comes first, as in our lines.
        is_cond: Whether the selector is a truth value.
    """

    selector: Any
    branches: tuple[Any, ...]
    is_cond: bool


def choice_of(node: Any) -> Choice | None:
    """Return the choice that a node stands for; None where it stands for something else.

    2.14 brought ``torch.switch``, and one node for that and for ``torch.cond``, of which it has the
    branch for false first.
    """
    if isinstance(node, _CONDITIONAL):
        branches = (node.true_subgraph, node.false_subgraph)
        return Choice(node.predicate, branches, is_cond=True)
    if isinstance(node, _SWITCH):
        found = tuple(node.branches)
        return Choice(node.selector, found[::-1] if node.is_cond else found, node.is_cond)
    return None


def checked_op(line: Any) -> str:
    """Return whose result an ``AssertSizeStrideLine`` checks, ``input`` for an input.

    2.13 brought the field. 2.12 has such lines for inputs only, and text for results of ops; 2.11
    has text for both.
    """
    return getattr(line, "op_name", "input")


def stream_index(line: Any) -> int:
    """Return the index of the stream that a ``KernelCallLine`` runs on, 0 for the current one.

    2.12 brought the field, and streams of one's own.
    """
    return getattr(line, "current_stream_idx", None) or 0


def processor() -> str:
    """Return the processor that Inductor is told to write C++ for; empty where it is told none.

    2.13 brought the setting ``cpp.march``.
    """
    return getattr(inductor_config.cpp, "march", None) or ""
