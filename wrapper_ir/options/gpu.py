"""Options for GPUs: calls that are captured and replayed, and what is built for them."""

from __future__ import annotations

from typing import Final

from wrapper_ir.options.schema import Option

GRAPHS: Final = Option("cuda_graph", bool, False, "capture calls as CUDA graphs and replay them")

GRAPH_LIMIT: Final = Option(
    "cuda_graph_limit",
    int,
    8,
    "how many graphs are kept, one for each set of sizes",
    least=1,
    expected="a number from 1",
)

GRAPH_BRANCHES: Final = Option(
    "cuda_graph_branches",
    int,
    2,
    "how many branches a graph may have besides its main one, where that is faster",
    choices=tuple(range(9)),
)

GRAPH_CUTS: Final = Option(
    "cuda_graph_cuts",
    bool,
    True,
    "capture the pieces between what cannot be captured, where the whole cannot be",
)

GRAPH_RESULTS: Final = Option(
    "cuda_graph_results",
    str,
    "fresh",
    "memory of replayed calls' results: the caller's (fresh), or the graph's (shared)",
    choices=("fresh", "shared"),
)

PRODUCTS: Final = Option(
    "products",
    str,
    "cublas",
    "what makes products of matrices on a GPU: cuBLAS itself, as PyTorch's ops would, or these",
    choices=("aten", "cublas"),
)

ARCHITECTURES: Final = Option(
    "gpu_arch",
    str | tuple[str, ...],
    (),
    "what Triton kernels are compiled for; by default this machine's GPU",
    expected="such as 'sm_90'",
    accepts=lambda given: (
        isinstance(given, str | list | tuple) and all(isinstance(name, str) for name in given)
    ),
)
