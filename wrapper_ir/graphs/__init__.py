"""Facts about FX graphs of ATen ops: what nodes write, and which memory their values share.

Nothing here knows of programs, or of who made a graph.
"""
