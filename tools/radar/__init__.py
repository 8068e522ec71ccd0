"""What we rely on in torch, found in our own sources, and what of it a release changes.

Two releases of torch are read as text: modules by ``ast``, headers by a small reader of
declarations, libraries by their tables of symbols. Nothing of them is imported or run. What we rely
on is read from our sources in the same manner, so that no list has to be kept.

Convention: a *chain* is a way from a package to something in it, such as ``("torch", "_inductor",
"virtualized", "V", "graph", "get_buffer", "()", "layout")``; ``()`` is a call, or an instance.
"""

from tools.radar.compare import Finding, drift, gone

__all__ = ["Finding", "drift", "gone"]
