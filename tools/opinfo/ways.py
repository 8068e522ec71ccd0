"""One batch of calls under stock Inductor and under our backend, and the differences."""

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
    from tools.opinfo.mode import Mode

__all__ = ["Outcome", "difference", "run"]


@dataclass
class Outcome:
    """The results and side effects of a call.

    Attributes:
        results: The leaves of the result, and which of them require a gradient.
        arguments: The arguments after the call.
        gradients: Gradients of arguments and parameters, where taken.
        state: Parameters and buffers of modules.
        generator: The state of the random generator.
        lowered: The number of graphs that Inductor lowered.
        programs: The number of programs that we made.
    """

    results: list[Any]
    arguments: list[Any]
    gradients: list[Any]
    state: list[Any]
    generator: torch.Tensor
    lowered: int
    programs: int


def run(batch: Batch, backend: str, mode: Mode, *, fullgraph: bool, **options: Any) -> Outcome:
    """Compile a batch, call it twice from a known random state; return the second outcome."""
    torch._dynamo.reset()
    statistics.reset()
    batch = batch.fresh()
    with _counting_graphs() as lowered, torch.set_grad_enabled(mode.backward):
        compiled = torch.compile(
            batch.__call__,
            backend=backend,
            fullgraph=fullgraph,
            dynamic=True if mode.dynamic else None,
            options=options or None,
        )
        _called(compiled, batch, mode)
        results, arguments, gradients = _called(compiled, batch, mode)
    state = torch.get_rng_state() if mode.device == "cpu" else torch.cuda.get_rng_state()
    leaves = pytree.tree_leaves(results)
    return Outcome(
        [*_copies(leaves), [isinstance(t, torch.Tensor) and t.requires_grad for t in leaves]],
        _copies(pytree.tree_leaves(arguments)),
        _copies(gradients),
        _copies(batch.state()),
        state,
        len(lowered),
        statistics.programs,
    )


def _called(compiled: Any, batch: Batch, mode: Mode) -> tuple[Any, Any, list[Any]]:
    arguments = batch.arguments()
    torch.manual_seed(0)
    results = compiled(arguments)
    return results, arguments, batch.gradients(results, arguments) if mode.backward else []


def _copies(leaves: list[Any]) -> list[Any]:
    """Copy values that a later call might change."""
    return copy.deepcopy([_plain(leaf) for leaf in leaves])


def _plain(leaf: Any) -> Any:
    """Return a tensor without its history; describe a tensor of zeros that has no memory."""
    if not isinstance(leaf, torch.Tensor):
        return leaf
    if leaf.layout is torch.strided and leaf._is_zerotensor():
        return f"zeros of {leaf.dtype}, {tuple(leaf.shape)}, {leaf.stride()}"
    return leaf.detach()


@contextlib.contextmanager
def _counting_graphs() -> Iterator[list[Any]]:
    """Count the graphs that Inductor lowers, inside Inductor."""
    seen: list[Any] = []
    codegen = GraphLowering.codegen

    def counting(self: GraphLowering) -> Any:
        seen.append(None)
        return codegen(self)

    with mock.patch.object(GraphLowering, "codegen", counting):
        yield seen


def difference(ours: Outcome, stock: Outcome, *, values: bool = True) -> str:
    """Describe the differences between two outcomes; empty if they are equal bit for bit.

    Args:
        ours: Our outcome.
        stock: Inductor's outcome.
        values: Whether to compare values; uninitialised results have none.
    """
    if ours.lowered != ours.programs:
        return f"Inductor lowered {ours.lowered} graphs, {ours.programs} of them through us"
    if len(ours.results) != len(stock.results):
        return f"{len(ours.results)} results, not {len(stock.results)}"
    if ours.lowered != stock.lowered:
        return f"{ours.lowered} graphs, not {stock.lowered}"
    for what in ("results", "arguments", "gradients", "state"):
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
