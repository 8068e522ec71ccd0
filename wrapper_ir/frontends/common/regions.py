"""Regions under construction. The results of a region have storage of their own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import sympy
import torch

from wrapper_ir.analysis.proof import same
from wrapper_ir.build.draft import ProgramDraft, at_start
from wrapper_ir.frontends.common.ops import call_of
from wrapper_ir.lines.args import Access, Arg, BufferArg, BufferValue, Value
from wrapper_ir.lines.control import BufferInput, Input, Region
from wrapper_ir.lines.expr import dim as to_dim
from wrapper_ir.lines.expr import substitute
from wrapper_ir.lines.memory import Allocate, Reinterpret
from wrapper_ir.lines.program import AnyLine
from wrapper_ir.lines.symbols import AssertSymbol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from wrapper_ir.lines.expr import Dim
    from wrapper_ir.lines.layout import Layout


def copied(
    draft: ProgramDraft, buffer: str, layout: Layout | None = None, origin: int | None = None
) -> str:
    """Emit a copy of a buffer, by default in the same layout, into new storage; return its name."""
    name = draft.fresh(f"{buffer}_copy")
    draft.buffers[name] = at_start(draft.buffers[buffer] if layout is None else layout)
    draft.emit(Allocate(name, origin=origin))
    copy(draft, name, buffer, origin)
    return name


def copy(draft: ProgramDraft, target: str, source: str, origin: int | None = None) -> None:
    """Emit a copy of one buffer into another."""
    args = (BufferArg(target, Access.WRITE), BufferArg(source))
    device = draft.buffers[target].device
    op = torch.ops.aten.copy_.default
    draft.emit(call_of(draft, op, args, device=device, origin=origin))


def relaid(draft: ProgramDraft, buffer: str, wanted: Layout) -> str:
    """Return a buffer that is laid out as wanted: itself, or a view if only the expressions differ.

    Torch writes a size in two ways on the two sides of a region: ``[4, 3]`` is ``[4, s0*s1 // 4]``
    inside. It knows the two to be equal, by a guard that the program does not state, so they are
    checked. Layouts that differ for the sizes that the program was made with are left to the
    verifier; so is a symbol where the other side has a number, for a graph that is specialized.
    """
    layout = draft.buffers[buffer]
    like = replace(wanted, size=layout.size, stride=layout.stride, offset=layout.offset)
    if like != layout or layout.rank != wanted.rank:
        return buffer
    sizes = [*zip(layout.size, wanted.size, strict=True)]
    strides = [*zip(layout.stride, wanted.stride, strict=True)]
    pairs = [pair for pair in (*sizes, *strides) if not same(*pair)]
    hints = {name: info.hint for name, info in draft.symbols.items() if info.hint is not None}
    if not pairs or not all(_may_be_equal(*pair, hints) for pair in pairs):
        return buffer
    for have, want in (*sizes, *(tuple(map(_of_nonempty, pair)) for pair in strides)):
        if not same(have, want):
            message = f"{have} to be {want}, as torch has found"
            draft.emit(AssertSymbol(sympy.Eq(have, want), message))
    name = draft.fresh(f"{buffer}_view")
    draft.buffers[name] = replace(layout, size=wanted.size, stride=wanted.stride)
    draft.emit(Reinterpret(name, buffer))
    return name


def _may_be_equal(a: Dim, b: Dim, hints: dict[str, int]) -> bool:
    """Return whether two dims that are written differently are equal for the hints."""
    compound = [dim for dim in (a, b) if isinstance(dim, sympy.Basic) and dim.args]
    found = substitute(a, hints)
    return bool(compound) and type(found) is int and found == substitute(b, hints)


def _of_nonempty(dim: Dim) -> Dim:
    """Return a stride as it is in a tensor with elements; that of an empty one does not matter."""
    if not isinstance(dim, sympy.Basic):
        return dim
    return to_dim(dim.replace(sympy.Max, lambda *args: sympy.Max(*(a for a in args if a != 1))))


@dataclass(slots=True)
class RegionDraft:
    """A region under construction, whose body may still grow."""

    draft: ProgramDraft
    body: list[AnyLine]
    params: list[Input | None]  #: the parameter for each operand; None if it is not passed
    results: list[Value]

    @property
    def written(self) -> set[int]:
        """Positions of the operands that the region writes."""
        params = [(i, p.name) for i, p in enumerate(self.params) if isinstance(p, BufferInput)]
        return {position for position, name in params if self.draft.is_written(name)}

    def region(self, order: Iterable[int]) -> Region:
        """Return the finished region. Its parameters are those of the operands in ``order``."""
        params = tuple(param for i in order if (param := self.params[i]) is not None)
        return Region(params, tuple(self.body), tuple(self.results))

    def lay_out(self, layouts: Sequence[Layout | None]) -> None:
        """Give each result the layout that is wanted, or leave one without: see ``relaid``."""
        with self.draft.region(self.body):
            for position, (value, wanted) in enumerate(zip(self.results, layouts, strict=True)):
                if isinstance(value, BufferValue) and wanted is not None:
                    self.results[position] = BufferValue(relaid(self.draft, value.buffer, wanted))

    def own_results(self, origin: Callable[[], int | None] = lambda: None) -> None:
        """Give each result storage of its own.

        A result that aliases, or may alias, a parameter, a constant or an earlier result is copied.
        ``origin`` is called only if there are any.
        """
        draft = self.draft
        taken = {param.name for param in self.params if isinstance(param, BufferInput)}
        taken |= draft.constants.keys()
        with draft.region(self.body):
            for position, value in enumerate(self.results):
                if isinstance(value, BufferValue):
                    if draft.roots(value.buffer) & taken:
                        value = BufferValue(copied(draft, value.buffer, origin=origin()))
                        self.results[position] = value
                    taken |= draft.roots(value.buffer)


def passed(
    operands: Mapping[int, Arg] | Sequence[Arg], order: Iterable[int], written: set[int]
) -> tuple[Arg, ...]:
    """Return operands in an order. Those that a region writes are passed for writing."""
    pairs = [(position in written, operands[position]) for position in order]
    return tuple(
        BufferArg(arg.buffer, Access.READ_WRITE) if writes and isinstance(arg, BufferArg) else arg
        for writes, arg in pairs
    )
