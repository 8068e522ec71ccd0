"""Conversion of a scheduled Inductor graph, while it is alive, to a ``Program`` that outlives it.

Inductor's lines are half typed: some hold IR nodes, some text. The code here reads the nodes; it
parses no text and uses none of Inductor's own printing or planning. The result references none of
Inductor's objects, which would keep the whole graph alive.

Functions raise ``UnsupportedLineError`` for what has no typed form; a docstring mentions it where
the condition is not obvious.
"""
