"""Borders of regions: what a region gives is nobody else's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from wrapper_ir.build.draft import at_start
from wrapper_ir.frontends.common.ops import declare
from wrapper_ir.lines.args import Access, BufferArg, BufferValue
from wrapper_ir.lines.kernels import ExternKernel
from wrapper_ir.lines.memory import Allocate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from wrapper_ir.build.draft import ProgramDraft
    from wrapper_ir.lines.args import Value
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
    plain = at_start(draft.buffers[buffer] if layout is None else layout)
    name = draft.fresh(f"{buffer}_copy")
    draft.buffers[name] = plain
    draft.emit(Allocate(name, origin=origin))
    op = declare(draft, torch.ops.aten.copy_.default)
    args = (BufferArg(name, Access.WRITE), BufferArg(buffer))
    draft.emit(ExternKernel(op, args, device=plain.device, origin=origin))
    return name


def own_results(
    draft: ProgramDraft,
    results: Iterable[Value],
    params: Sequence[str],
    origin: Callable[[], int | None] = lambda: None,
) -> list[Value]:
    """Return the results of the region that is open, each in storage that nobody else holds.

    What is, or may be, the storage of a parameter, a constant or an earlier result is copied.

    Args:
        draft: The program.
        results: What the region gives.
        params: Its buffers that are parameters.
        origin: Gives the origin of copies, where there are any.
    """
    taken = {*params, *draft.constants}
    owned: list[Value] = []
    for value in results:
        if isinstance(value, BufferValue):
            if draft.roots(value.buffer) & taken:
                value = BufferValue(copied(draft, value.buffer, origin=origin()))
            taken |= draft.roots(value.buffer)
        owned.append(value)
    return owned
