"""What Inductor's nodes for choices say, in whichever form this release of torch has them.

Until torch 2.13 a choice is a ``Conditional`` with two subgraphs. Since then it is a ``Switch``
with any number of them, the one for false first where it stands for ``torch.cond``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from wrapper_ir.frontends.inductor.compat import ir

__all__ = ["ChoiceParts", "choice_parts"]

_CONDITIONAL: Any = getattr(ir, "Conditional", ())
_SWITCH: Any = getattr(ir, "Switch", ())


class ChoiceParts(NamedTuple):
    """What decides a choice, and between what.

    Attributes:
        selector: The node of a truth value, or else of the number of a branch.
        branches: The subgraphs. Of a truth value that for true comes first, as in our lines.
        is_cond: Whether the selector is a truth value.
    """

    selector: Any
    branches: tuple[Any, ...]
    is_cond: bool


def choice_parts(node: Any) -> ChoiceParts | None:
    """Return the parts of a node that stands for a choice; None for any other node."""
    if isinstance(node, _CONDITIONAL):
        branches = (node.true_subgraph, node.false_subgraph)
        return ChoiceParts(node.predicate, branches, is_cond=True)
    if isinstance(node, _SWITCH):
        found = tuple(node.branches)
        return ChoiceParts(node.selector, found[::-1] if node.is_cond else found, node.is_cond)
    return None
