"""FX graphs of ATen ops: what nodes write, which memory values share, and programs against them.

``nodes`` and ``versions`` know nothing of programs; ``refinement`` compares a program's lines with
their facts, storage by storage (``contents``, ``places``). Nothing here knows who made a graph.
"""
