"""Regions in the making, and their borders: what a region gives is nobody else's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from wrapper_ir.build.draft import ProgramDraft, at_start
from wrapper_ir.frontends.common.ops import call_of
from wrapper_ir.lines.args import Access, Arg, BufferArg, BufferValue, Value
from wrapper_ir.lines.control import BufferInput, Input, Region
from wrapper_ir.lines.memory import Allocate
from wrapper_ir.lines.program import AnyLine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from wrapper_ir.lines.layout import Layout


def copied(
    draft: ProgramDraft, buffer: str, layout: Layout | None = None, origin: int | None = None
) -> str:
    """Emit a copy of a buffer, and return its name.

    Args:
        draft: The program.
        buffer: What is copied.
        layout: How the copy is laid out, at the start of its storage; by default as the buffer is.
        origin: The origin of the copy.
    """
    name = draft.fresh(f"{buffer}_copy")
    draft.buffers[name] = at_start(draft.buffers[buffer] if layout is None else layout)
    draft.emit(Allocate(name, origin=origin))
    copy(draft, name, buffer, origin)
    return name


def copy(draft: ProgramDraft, target: str, source: str, origin: int | None = None) -> None:
    """Emit a copy of a buffer into another one."""
    args = (BufferArg(target, Access.WRITE), BufferArg(source))
    device = draft.buffers[target].device
    op = torch.ops.aten.copy_.default
    draft.emit(call_of(draft, op, args, device=device, origin=origin))


@dataclass(slots=True)
class RegionDraft:
    """A region that is being made, to whose body lines may be added.

    Attributes:
        draft: The program.
        body: The lines.
        params: What stands for each operand inside; None where it is not passed.
        results: What the region gives.
    """

    draft: ProgramDraft
    body: list[AnyLine]
    params: list[Input | None]
    results: list[Value]

    @property
    def written(self) -> set[int]:
        """Positions of operands that it writes to."""
        return {
            position
            for position, param in enumerate(self.params)
            if isinstance(param, BufferInput) and self.draft.is_written(param.name)
        }

    def region(self, order: Iterable[int]) -> Region:
        """Return the region, whose parameters stand for the operands at these positions."""
        params = tuple(param for i in order if (param := self.params[i]) is not None)
        return Region(params, tuple(self.body), tuple(self.results))

    def own_results(self, origin: Callable[[], int | None] = lambda: None) -> None:
        """Have each result lie in storage that nobody else holds.

        What is, or may be, the storage of a parameter, a constant or an earlier result is copied.

        Args:
            origin: Gives the origin of copies, where there are any.
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
    """Return operands in an order, those that a region writes to passed for writing."""
    found: list[Arg] = []
    for position in order:
        arg = operands[position]
        if isinstance(arg, BufferArg) and position in written:
            arg = BufferArg(arg.buffer, Access.READ_WRITE)
        found.append(arg)
    return tuple(found)
