"""Inductor's memory planners on the graph that we plan too: the same lines, counted the same way.

While a model is captured, Inductor's planners run on copies of the wrapper's lines, and what their
plans hold at most is read off the planned lines: allocations, pools and what library ops return,
each rounded up to the alignment of torch's allocator, at the hints where sizes are symbolic. Ours
are counted likewise. No kernel is compiled and nothing runs.
"""

from __future__ import annotations

import contextlib
import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from unittest import mock

import torch
from torch._inductor import config
from torch._inductor.codegen import memory_planning, wrapper
from torch._inductor.virtualized import V

import wrapper_ir as wir
from wrapper_ir.analysis.liveness import Liveness
from wrapper_ir.frontends.inductor.wrapper import NotingWrapper
from wrapper_ir.lines.layout import CPU
from wrapper_ir.planning import plan
from wrapper_ir.planning.sizes import Rounded, alignment_of, held_bytes, needed_bytes, peak

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torch import nn

__all__ = ["OURS", "POOLS", "Peaks", "compare"]

#: What ``memory_pool`` can be, where Inductor plans with pools.
POOLS: Final = ("none", "intermediates", "outputs", "combined")

#: Our ways of planning: strategy, and how long arenas last.
OURS: Final = {"reuse": ("reuse", "call"), "pool": ("pool", "call"), "kept": ("pool", "kept")}

_ALIGNMENT: Final = alignment_of(CPU)


@dataclass(frozen=True)
class Peaks:
    """Bytes held at most by each plan of one graph.

    Attributes:
        bound: The least that any plan for the lines in their order needs, ours being the lines.
        stock: By Inductor's ways: ``reuse`` line by line, and each of ``POOLS``.
        ours: By each of ``OURS``.
    """

    bound: int
    stock: dict[str, int]
    ours: dict[str, int]


def compare(model: nn.Module, args: Sequence[Any]) -> Peaks:
    """Capture a model at inference and plan its graph in every way."""
    with _watching() as seen, torch.no_grad():
        program = wir.capture(model.eval(), args)
    (stock,) = seen
    plans = {
        name: plan(program, strategy, arena=arena).program
        for name, (strategy, arena) in OURS.items()
    }
    bound = min(_peak(needed_bytes, planned) for planned in plans.values())
    ours = {name: _peak(held_bytes, planned) for name, planned in plans.items()}
    return Peaks(bound, stock, ours)


def _peak(count: Any, planned: wir.Program) -> int:
    sizes = Rounded(planned)
    sizes.compute(planned)
    region = planned.region
    return peak(count(region, Liveness(region, planned), planned, sizes))


@contextlib.contextmanager
def _watching() -> Iterator[list[dict[str, int]]]:
    """Note, for the length of a block, what Inductor's planners make of each graph."""
    seen: list[dict[str, int]] = []
    generate = NotingWrapper._generate

    def planning(self: NotingWrapper, is_inference: bool) -> Any:
        seen.append(_stock_peaks(self))
        return generate(self, is_inference)

    with mock.patch.object(NotingWrapper, "_generate", planning):
        yield seen


def _stock_peaks(code: Any) -> dict[str, int]:
    peaks = {"reuse": _held_most(_reused(code))}
    for pool in POOLS:
        with config.patch(memory_pool=pool):
            planner = memory_planning.MemoryPlanner(code)
            peaks[pool] = _held_most(planner.plan(_copies(code.lines)))
    return peaks


def _copies(lines: list[Any]) -> list[Any]:
    return [copy.copy(line) for line in lines]


def _reused(code: Any) -> list[Any]:
    before = code.lines
    code.lines = _copies(before)
    code.estimate_peak = wrapper.EfficientPeakEstimate()
    try:
        code.memory_plan_reuse()
        planned: list[Any] = code.lines
        return planned
    finally:
        code.lines = before


def _held_most(lines: list[Any]) -> int:
    """Walk planned lines and count what is held; names that are no storage of ours are skipped."""
    held: dict[object, int] = {}
    most = 0
    parts = _parts(lines)
    for line in lines:
        match line:
            case wrapper.AllocateLine() | wrapper.ExternKernelAllocLine():
                name = line.node.get_name()
                for made in parts.get(name, [name]):  # there when the call returns
                    held[made] = _nbytes(V.graph.get_buffer(made))
            case wrapper.ReuseLine() if line.delete_old and line.node.get_name() in held:
                held[line.reused_as.get_name()] = held.pop(line.node.get_name())
            case wrapper.FreeIfNotReusedLine() if not line.is_reused:
                held.pop(line.node.get_name(), None)
            case memory_planning.AllocFromPoolLine() if line.is_first_pool_usage:
                held[_pool(line)] = _rounded(_pool(line).root.get_size_hint())
            case memory_planning.DeallocFromPoolLine() if line.is_last_pool_usage:
                held.pop(_pool(line))
        most = max(most, sum(held.values()))
    return most


def _parts(lines: list[Any]) -> dict[str, list[str]]:
    """The results of each library op that has several."""
    found: dict[str, list[str]] = {}
    for line in lines:
        if isinstance(line, wrapper.MultiOutputLine):
            found.setdefault(line.arg_name, []).append(line.result_name)
    return found


def _pool(line: Any) -> Any:
    """The pool of a line; by identity, since equal pools are different ones."""
    return line.group.allocation.pool


def _nbytes(node: Any) -> int:
    if isinstance(node.layout, torch._inductor.ir.MultiOutputLayout):
        return 0  # none of its parts is used
    elements = V.graph.sizevars.optimization_hint(
        V.graph.get_allocation_storage_size(node), fallback=0
    )
    return _rounded(int(elements) * node.get_dtype().itemsize)


def _rounded(nbytes: int) -> int:
    return -(-nbytes // _ALIGNMENT) * _ALIGNMENT
