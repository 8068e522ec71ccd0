"""Options for GPUs: capture and replay of calls, and the architectures to build for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from wrapper_ir.options.schema import Option

GRAPHS: Final = Option("cuda_graph", bool, False, "capture calls as CUDA graphs and replay them")

GRAPH_LIMIT: Final = Option(
    *("cuda_graph_limit", int, 8, "how many graphs to keep, one for each set of sizes"),
    least=1,
    expected="a number from 1",
)

GRAPH_BRANCHES: Final = Option(
    *("cuda_graph_branches", int, 2),
    "how many branches a graph may have besides its main one, if that is faster",
    choices=tuple(range(9)),
)

GRAPH_CUTS: Final = Option(
    *("cuda_graph_cuts", bool, True),
    "cut a program that cannot be captured as a whole, and capture the pieces",
)

GRAPH_RESULTS: Final = Option(
    *("cuda_graph_results", str, "fresh"),
    "memory for the results of replayed calls: the caller's (fresh), or the graph's (shared)",
    choices=("fresh", "shared"),
)

MATMUL: Final = Option(
    *("gpu_matmul", str, "cublas"),
    "matrix products on a GPU: call cuBLAS directly, as PyTorch's ops do, or call these ops (aten)",
    choices=("aten", "cublas"),
    formerly="products",
)

ARCHITECTURES: Final = Option(
    *("gpu_arch", str | tuple[str, ...], ()),
    "the GPU architectures to compile Triton kernels for; by default this machine's",
    expected="such as 'sm_90'",
    accepts=lambda names: (
        isinstance(names, str | list | tuple) and all(isinstance(name, str) for name in names)
    ),
)


@dataclass(frozen=True)
class Captures:
    """Base of emitters whose programs' calls can be captured: the options for that.

    Branches are independent kernels that run side by side. Results that are shared are the graph's
    own memory, which the next call overwrites; in training they are always fresh.
    """

    cuda_graph: bool = GRAPHS.field()
    cuda_graph_limit: int = GRAPH_LIMIT.field()
    cuda_graph_branches: int = GRAPH_BRANCHES.field()
    cuda_graph_results: str = GRAPH_RESULTS.field()
    cuda_graph_cuts: bool = GRAPH_CUTS.field()

    def lowering(self, *, probed: bool) -> tuple[str, ...]:
        """Return the pass that prepares programs for capture, if calls are captured.

        Calls with probes are not.
        """
        if probed or not self.cuda_graph:
            return ()
        cuts = str(self.cuda_graph_cuts).lower()
        return (f"prepare-capture{{branches={self.cuda_graph_branches},cuts={cuts}}}",)

    @property
    def graphs(self) -> Captures | None:
        """The options, or None if calls are not captured."""
        return self if self.cuda_graph else None
