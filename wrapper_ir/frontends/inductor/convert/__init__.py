"""From a scheduled Inductor graph, while it is alive, to a ``Program`` that outlives it.

Inductor's lines are half typed: some hold IR nodes, some text. Everything here reads the nodes; no
text is parsed and none of Inductor's own printing or planning is used. What comes out holds no
object of Inductor's: those keep the whole graph alive.
"""

from __future__ import annotations

from wrapper_ir.frontends.inductor.convert.graph import Passing, convert_graph, passing_of

__all__ = ["Passing", "convert_graph", "passing_of"]
