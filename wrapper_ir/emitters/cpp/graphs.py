"""Programs in C++ whose calls are captured as CUDA graphs: what stands around their function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from wrapper_ir.runtime import CudaGraphs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from wrapper_ir.emitters.capture import CaptureFacts
    from wrapper_ir.emitters.cpp.artifact import BoxedCall

__all__ = ["captured", "unboxed"]


def captured(call: BoxedCall, facts: CaptureFacts, variables: Mapping[str, Any]) -> BoxedCall:
    """A boxed function that captures another's calls and replays them, where that can be.

    Args:
        call: The other one.
        facts: What is known of its program.
        variables: The program's constants by name, as they are at each call.
    """
    graphs = CudaGraphs(
        facts.program,
        torch.device(facts.device or "cuda"),
        writes=facts.writes,
        constants=lambda: [variables[name] for name in facts.constants],
        limit=facts.limit,
        results=facts.results,
        reasons=facts.reasons,
        branches=facts.has_branches,
    )
    plain: Any = call
    made: Any = graphs(call)
    made.cuda_graphs = graphs
    made.release = lambda: graphs.release() + plain.release()
    function: BoxedCall = made
    return function


def unboxed(call: BoxedCall, name: str) -> Callable[..., tuple[Any, ...]]:
    """``function(*inputs) -> tuple of results`` for a boxed one of :func:`captured`."""
    boxed: Any = call

    def run(*inputs: object, out: Sequence[Any] | None = None) -> tuple[Any, ...]:
        results: tuple[Any, ...] = boxed([*inputs], out)
        return results

    run.__name__ = run.__qualname__ = name if name.isidentifier() else "program"
    run.__doc__ = f"Run the program '{name}' on its inputs; gives a tuple of its results."
    run.cuda_graphs = boxed.cuda_graphs  # type: ignore[attr-defined]
    run.release = boxed.release  # type: ignore[attr-defined]
    return run
