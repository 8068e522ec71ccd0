"""What is to know of an fx node before eager execution is taken for the truth."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import torch

if TYPE_CHECKING:
    from torch.fx import Node

__all__ = ["changes_in_place", "is_computed_by_number", "not_repeatable"]

_RANDOM: Final = "depend on random numbers"
_UNSET: Final = "depend on memory that is not set"

#: Inductor's own ops that draw numbers, which have no tag.
_RANDOM_PRIMS: Final = ("inductor_seed", "inductor_rand")

#: Modules of Python's own functions that graphs call, on numbers and tuples.
_PLAIN: Final = ("_operator", "math")


def changes_in_place(node: Node) -> bool:
    """Whether a node's op writes to an argument."""
    schema = getattr(node.target, "_schema", None)
    return schema is not None and bool(schema.is_mutable)


def is_computed_by_number(node: Node) -> bool:
    """Whether a node gives nearly the same numbers when it is run in a wider type."""
    if node.op != "call_function" or node.target is torch.ops.aten.view.dtype:
        return False
    if not hasattr(node.target, "_schema"):
        return getattr(node.target, "__module__", "") in _PLAIN
    return not changes_in_place(node)


def not_repeatable(node: Node) -> str:
    """Why another run of a node gives something else; empty where it does not."""
    tags = getattr(node.target, "tags", ())
    name = str(node.target).partition(".")[2]
    is_random = torch.Tag.nondeterministic_seeded in tags and not _drops_nothing(node)
    if is_random or name.startswith(_RANDOM_PRIMS):
        return _RANDOM
    return _UNSET if name.startswith(("empty", "new_empty")) else ""


def _drops_nothing(node: Node) -> bool:
    """Whether an op that may drop elements at random, such as attention, is told to drop none."""
    schema = getattr(node.target, "_schema", None)
    for position, arg in enumerate(schema.arguments if schema is not None else ()):
        if arg.name == "dropout_p":
            given = node.args[position] if position < len(node.args) else arg.default_value
            return bool(node.kwargs.get(arg.name, given) == 0)
    return False
