"""Programs made ready for calls that are captured as CUDA graphs: branches, or cuts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wrapper_ir.emitters.cuda_graphs.capture import why_not_captured
from wrapper_ir.lines.program import Stage

if TYPE_CHECKING:
    from wrapper_ir.lines.program import Program

__all__ = ["for_graphs"]


def for_graphs(program: Program, emitter: object) -> Program:
    """Return a program made ready for an emitter that has its calls captured.

    It gets branches, or is cut where something in it cannot be captured, as the emitter's options
    say.

    Args:
        program: A program whose memory is yet to be planned.
        emitter: What is going to render it.
    """
    if not getattr(emitter, "cuda_graph", False) or program.stage is Stage.PLANNED:
        return program
    # The planner is a large package; programs that are planned need none of it.
    if why_not_captured(program):
        from wrapper_ir.emitters.cuda_graphs.cuts import cut  # noqa: PLC0415

        return cut(program) if getattr(emitter, "cuda_graph_cuts", False) else program
    from wrapper_ir.planning.branches import branch  # noqa: PLC0415

    return branch(program, getattr(emitter, "cuda_graph_branches", 0))
