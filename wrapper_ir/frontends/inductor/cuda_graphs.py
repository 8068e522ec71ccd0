"""Inductor's CUDA graphs, where it would put one around each part of a graph."""

from __future__ import annotations

from typing import Any, Final

from wrapper_ir.options.gpu import GRAPHS

#: Inductor's option for what ours does.
CAPTURES: Final = ("triton.cudagraphs", GRAPHS.name)

#: The beginning of the names of others, and what to say instead.
OTHERS: Final = ("triton.cudagraph", "the options cuda_graph, cuda_graph_limit, ... capture calls")

_REASON: Final = "a program of wrapper_ir is whole; its option cuda_graph captures its calls"


def keep_whole(graph: Any) -> None:
    """Tell Inductor that a graph has no parts, which it would look for in the finished module.

    It then puts no CUDA graphs around them, and logs why.

    Args:
        graph: Inductor's, which has become one program.
    """
    if graph.partition_maps:
        graph.partition_maps = None
        graph.disable_cudagraphs_reason = _REASON
