"""Differences between the supported releases of torch, and the release that brought each.

Each function gives the same answer on all of them. Lines that only some releases have need none:
they are told apart by the names of their classes (``convert.lines``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from wrapper_ir.frontends.inductor.compat import inductor_config, ir, user_objects

if TYPE_CHECKING:
    from collections.abc import Mapping

_CONDITIONAL: Any = getattr(ir, "Conditional", ())
_SWITCH: Any = getattr(ir, "Switch", ())
_SHALLOW_COPY: Any = getattr(getattr(torch.ops.aten, "shallow_copy_data_", ()), "default", ())


class Choice(NamedTuple):
    """Condition and branches of a node of Inductor's.

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


def gives_data(target: Any) -> bool:
    """Say whether a node calls an op that gives its first argument the data of its second.

    2.15 brought ``shallow_copy_data_``, and lowers it to ``set_``.
    """
    return target is torch.ops.aten.set_.source_Tensor or target is _SHALLOW_COPY


def user_streams(line: Any) -> Mapping[int, int]:
    """Return the streams that a device's block names, and which object of the user's each is.

    2.12 brought streams of one's own; a block without any is of another class, without the field.
    """
    return getattr(line, "stream_idx_to_user_obj_idx", {})


def current_stream() -> int | None:
    """Return the number that the stream that is current always has among the user's objects.

    2.12 brought it.
    """
    return getattr(user_objects, "CURRENT_STREAM_INDEX", None)


def processor() -> str:
    """Return the processor that Inductor is told to write C++ for; empty where it is told none.

    2.13 brought the setting ``cpp.march``.
    """
    return getattr(inductor_config.cpp, "march", None) or ""


def loops_of_gpus() -> tuple[str, ...]:
    """Return the settings by which Inductor changes loops so that kernels for GPUs can be fused.

    2.13 brought ``loop_reindexing_after_fusion``.
    """
    names = ("loop_ordering_after_fusion", "loop_reindexing_after_fusion")
    return tuple(name for name in names if hasattr(inductor_config, name))
