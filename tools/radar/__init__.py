"""The parts of torch we rely on, found in our own sources, and how a release changes them.

Two releases of torch are read as text: modules with ``ast``, headers with a small parser of
declarations, libraries through their symbol tables. Nothing of them is imported or run. Our uses
are read from our sources in the same way, so that no list has to be maintained.

Convention: a *chain* is a path from a package to something in it, such as ``("torch", "_inductor",
"virtualized", "V", "graph", "get_buffer", "()", "layout")``; ``()`` is a call, or an instance.
"""

from tools.radar.compare import Finding, drift, gone

__all__ = ["Finding", "drift", "gone"]
