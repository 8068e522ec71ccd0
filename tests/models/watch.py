"""Seeing from outside what Inductor does, so that a bypassed hook cannot pass for a success.

Results that are right prove nothing by themselves: had our code never run, stock Inductor's would
have given them. So we count, in Inductor itself, the graphs that it lowers and the compiled graphs
that it hands back, and hold our own counts against these.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from unittest import mock

from torch._inductor.graph import GraphLowering
from torch._inductor.output_code import CompiledFxGraph

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Watch", "watch_inductor"]


@dataclass
class Watch:
    """What was seen.

    Attributes:
        lowered: Graphs that Inductor turned into a wrapper (a cache hit lowers nothing).
        graphs: The compiled graphs that came out, from a cache or not.
    """

    lowered: int = 0
    graphs: list[CompiledFxGraph] = field(default_factory=list)

    @property
    def sources(self) -> list[str]:
        """The module text behind each compiled graph."""
        return [graph.source_code for graph in self.graphs]


@contextlib.contextmanager
def watch_inductor() -> Iterator[Watch]:
    """Count for the length of a block."""
    seen = Watch()
    codegen, post_compile = GraphLowering.codegen, CompiledFxGraph.post_compile

    def counting_codegen(self: GraphLowering) -> Any:
        seen.lowered += 1
        return codegen(self)

    def noting_post_compile(self: CompiledFxGraph, *args: Any, **kwargs: Any) -> None:
        post_compile(self, *args, **kwargs)
        if all(graph is not self for graph in seen.graphs):
            seen.graphs.append(self)

    with (
        mock.patch.object(GraphLowering, "codegen", counting_codegen),
        mock.patch.object(CompiledFxGraph, "post_compile", noting_post_compile),
    ):
        yield seen
