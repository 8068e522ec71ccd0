"""Regions under construction. The results of a region have storage of their own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch

from wrapper_ir.analysis.proof import same
from wrapper_ir.build.draft import ProgramDraft, at_start
from wrapper_ir.frontends.common.ops import call_of
from wrapper_ir.lines.args import Access, Arg, BufferArg, BufferValue, Value
from wrapper_ir.lines.control import BufferInput, Input, Region
from wrapper_ir.lines.expr import substitute
from wrapper_ir.lines.memory import Allocate, Reinterpret
from wrapper_ir.lines.program import AnyLine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from wrapper_ir.lines.layout import Layout


def copied(
    draft: ProgramDraft, buffer: str, layout: Layout | None = None, origin: int | None = None
) -> str:
    """Emit a copy of a buffer into new storage. Return the name of the copy.

    Args:
        draft: The program.
        buffer: The buffer to copy.
        layout: The layout of the copy, with a storage offset of 0. By default the buffer's.
        origin: The origin of the copy.
    """
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

    Torch knows the two to be equal, by a guard on sizes such as ``s0*s1 == 12``, that no program
    states, and writes one on either side of a region: ``[4, 3]`` is ``[4, s0*s1 // 4]`` inside.
    Layouts that differ for the sizes that the program was made with are left to the verifier.
    """
    layout = draft.buffers[buffer]
    if replace(wanted, size=layout.size, stride=layout.stride, offset=layout.offset) != layout:
        return buffer
    pairs = [*zip((*layout.size, *layout.stride), (*wanted.size, *wanted.stride), strict=False)]
    hints = {name: info.hint for name, info in draft.symbols.items() if info.hint is not None}
    are_equal = layout.rank == wanted.rank and all(
        same(a, b) or (type(n := substitute(a, hints)) is int and n == substitute(b, hints))
        for a, b in pairs
    )
    if not are_equal or all(same(a, b) for a, b in pairs):
        return buffer
    name = draft.fresh(f"{buffer}_view")
    draft.buffers[name] = replace(layout, size=wanted.size, stride=wanted.stride)
    draft.emit(Reinterpret(name, buffer))
    return name


@dataclass(slots=True)
class RegionDraft:
    """A region under construction, whose body may still grow.

    Attributes:
        draft: The program.
        body: The lines.
        params: The parameter for each operand; None if the operand is not passed.
        results: The results.
    """

    draft: ProgramDraft
    body: list[AnyLine]
    params: list[Input | None]
    results: list[Value]

    @property
    def written(self) -> set[int]:
        """Positions of the operands that the region writes."""
        return {
            position
            for position, param in enumerate(self.params)
            if isinstance(param, BufferInput) and self.draft.is_written(param.name)
        }

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

        Args:
            origin: Returns the origin of the copies. Called only if there are any.
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
    args: list[Arg] = []
    for position in order:
        arg = operands[position]
        if isinstance(arg, BufferArg) and position in written:
            arg = BufferArg(arg.buffer, Access.READ_WRITE)
        args.append(arg)
    return tuple(args)
