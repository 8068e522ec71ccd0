"""CUDA graphs: a program's call is captured once, then replayed.

This package is independent of the emitter: it wraps a function that takes a list of inputs, empties
it, and returns the results.
"""

from wrapper_ir.runtime.cuda_graphs.captured import CudaGraphs
from wrapper_ir.runtime.cuda_graphs.cut import CutGraphs
from wrapper_ir.runtime.cuda_graphs.status import (
    GraphStatus,
    library_statuses,
    statuses,
    statuses_of,
)

__all__ = ["CudaGraphs", "CutGraphs", "GraphStatus", "library_statuses", "statuses", "statuses_of"]
