"""CUDA graphs: a program's call is captured once, then replayed.

What is here knows nothing of the target: it wraps a function that takes the list of inputs, which
it empties, and returns the results.
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
