"""Rendering what captures calls as CUDA graphs: one object, the outermost decorator of ``call``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wrapper_ir.emitters.capture import why_not_captured
from wrapper_ir.emitters.facts import mutated_inputs
from wrapper_ir.emitters.python import literals
from wrapper_ir.emitters.python.statements import Node, call, keyword, list_of, statement, tuple_of

if TYPE_CHECKING:
    from wrapper_ir.emitters.capture import GraphOptions
    from wrapper_ir.emitters.python.context import Context

__all__ = ["render_graphs"]


def render_graphs(context: Context, options: GraphOptions) -> None:
    """Defines ``cuda_graphs``, with what must be known of the program; or why it is of no use."""
    program = context.program
    args: list[Node] = [literals.string(program.name)]
    reasons = why_not_captured(program)
    writer = context.section("kept")
    if reasons:
        texts = tuple_of([literals.string(reason) for reason in reasons])
        args.append(keyword("reasons", texts))
    else:
        assert context.gpu is not None, "programs on several GPUs have reasons"
        args.append(context.device(context.gpu))
        written = mutated_inputs(program)
        if written:
            args.append(keyword("writes", tuple_of([str(position) for position in written])))
        constants = [
            context.buffer(name)
            for name in program.constants
            if program.layout(name).device == context.gpu
        ]
        if constants:
            writer.lines(*statement(list_of(constants), 0, head="cuda_constants = lambda: "))
            args.append(keyword("constants", "cuda_constants"))
        args.append(keyword("limit", str(options.limit)))
        if options.results != "fresh":
            args.append(keyword("results", literals.string(options.results)))
    made = call(context.helper("CudaGraphs"), *args)
    writer.lines(*statement(made, 0, head="cuda_graphs = "))
