"""From a scheduled Inductor graph, while it is alive, to a ``Program`` that outlives it.

Inductor's lines are half typed: some hold IR nodes, some text. Everything here reads the nodes; no
text is parsed and none of Inductor's own printing or planning is used. What comes out holds no
object of Inductor's: those keep the whole graph alive.
"""
