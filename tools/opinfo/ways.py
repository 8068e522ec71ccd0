"""One batch of calls through stock Inductor and through us, and in what they differ."""

from __future__ import annotations

import contextlib
import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from unittest import mock

import torch
from torch._inductor.graph import GraphLowering
from torch.utils import _pytree as pytree

from wrapper_ir.frontends.inductor.session import statistics

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tools.opinfo.database import Batch

__all__ = ["Outcome", "described", "difference", "run"]


@dataclass
class Outcome:
    """What a call gave and left behind."""

    results: list[Any]
    arguments: list[Any]
    generator: torch.Tensor
    lowered: int
    programs: int


def run(batch: Batch, backend: str, *, fullgraph: bool, **options: Any) -> Outcome:
    """Compile a batch and call it twice; return the second call, from a known random state."""
    torch._dynamo.reset()
    statistics.reset()
    with _counting_graphs() as lowered:
        compiled = torch.compile(
            batch.__call__, backend=backend, fullgraph=fullgraph, options=options or None
        )
        with torch.no_grad():
            _called(compiled, batch)
            results, arguments = _called(compiled, batch)
    state = torch.get_rng_state()
    return Outcome(
        copy.deepcopy(pytree.tree_leaves(results)),
        pytree.tree_leaves(arguments),
        state,
        len(lowered),
        statistics.programs,
    )


def _called(compiled: Any, batch: Batch) -> tuple[Any, Any]:
    arguments = batch.arguments()
    torch.manual_seed(0)
    return compiled(arguments), arguments


@contextlib.contextmanager
def _counting_graphs() -> Iterator[list[Any]]:
    """Count the graphs that Inductor lowers, in Inductor itself."""
    seen: list[Any] = []
    codegen = GraphLowering.codegen

    def counting(self: GraphLowering) -> Any:
        seen.append(None)
        return codegen(self)

    with mock.patch.object(GraphLowering, "codegen", counting):
        yield seen


def difference(ours: Outcome, stock: Outcome, *, values: bool = True) -> str:
    """Say in what two outcomes differ; empty when they are the same to the bit.

    Args:
        ours: What we gave.
        stock: What Inductor gave.
        values: Whether values count, which uninitialised results do not have.
    """
    if ours.lowered != ours.programs:
        return f"Inductor lowered {ours.lowered} graphs, {ours.programs} of them through us"
    if len(ours.results) != len(stock.results):
        return f"{len(ours.results)} results, not {len(stock.results)}"
    for what in ("results", "arguments"):
        pairs = zip(getattr(ours, what), getattr(stock, what), strict=True)
        for number, (a, b) in enumerate(pairs):
            why = _unlike(a, b, values=values)
            if why:
                return f"{what} {number}: {why}"
    if not torch.equal(ours.generator, stock.generator):
        return "the random generator is left in another state"
    return ""


def _unlike(a: Any, b: Any, *, values: bool) -> str:
    if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
        return "" if type(a) is type(b) and (a == b or a != a) else f"{a!r}, not {b!r}"
    for name in ("dtype", "shape", "layout"):
        if getattr(a, name) != getattr(b, name):
            return f"{name} {getattr(a, name)}, not {getattr(b, name)}"
    if a.layout is torch.strided and (a.stride(), a.storage_offset()) != (
        b.stride(),
        b.storage_offset(),
    ):
        return f"stride {a.stride()}, not {b.stride()}, or the offset"
    if not values or torch.equal(_bits(a), _bits(b)):
        return ""
    return "values differ"


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    """Return the bytes of a tensor's elements."""
    plain = tensor.to_dense() if tensor.layout is not torch.strided else tensor
    plain = plain.resolve_conj().resolve_neg().clone(memory_format=torch.contiguous_format)
    return plain.reshape(-1).view(torch.uint8)


def described(error: BaseException) -> str:
    """Return an error in one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]
