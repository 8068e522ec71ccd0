"""The facts that text or a library needs to capture a program's calls as CUDA graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wrapper_ir.analysis.capture import why_not_captured
from wrapper_ir.analysis.devices import only_accelerator
from wrapper_ir.analysis.liveness import mutated_inputs
from wrapper_ir.analysis.ops import draws
from wrapper_ir.lines.program import GraphRole
from wrapper_ir.lines.walk import walk
from wrapper_ir.toolchain.manifest import CaptureFacts

if TYPE_CHECKING:
    from wrapper_ir.lines.program import Program
    from wrapper_ir.options.gpu import Captures


def capture_facts(program: Program, options: Captures) -> CaptureFacts:
    """Return the facts about a program that capturing its calls depends on."""
    reasons = why_not_captured(program)
    if reasons:
        return CaptureFacts(program.name, reasons=reasons)
    device = only_accelerator(program)
    constants = [name for name in program.constants if program.layout(name).device == device]
    # What a forward saves must last until its backward, and gradients until they are used.
    is_inference = program.role is GraphRole.INFERENCE
    return CaptureFacts(
        program.name,
        str(device),
        tuple(mutated_inputs(program)),
        tuple(constants),
        options.cuda_graph_limit,
        options.cuda_graph_results if is_inference else "fresh",
        is_random=any(draws(program, line) for _, line in walk(program)),
        has_branches=any(stream.captured for stream in program.streams),
    )
