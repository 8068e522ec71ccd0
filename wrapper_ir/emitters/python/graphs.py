"""Rendering what captures calls as CUDA graphs: one object, the outermost decorator of ``call``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wrapper_ir.emitters.capture import capture_facts
from wrapper_ir.emitters.python import literals
from wrapper_ir.emitters.python.statements import Node, call, keyword, list_of, statement, tuple_of

if TYPE_CHECKING:
    from wrapper_ir.emitters.capture import GraphOptions
    from wrapper_ir.emitters.python.context import Context

__all__ = ["render_graphs"]


def render_graphs(context: Context, options: GraphOptions) -> None:
    """Defines ``cuda_graphs``, with what must be known of the program; or why it is of no use."""
    facts = capture_facts(context.program, options)
    args: list[Node] = [literals.string(facts.program)]
    writer = context.section("kept")
    if facts.reasons:
        texts = tuple_of([literals.string(reason) for reason in facts.reasons])
        args.append(keyword("reasons", texts))
    else:
        assert context.gpu is not None, "programs on several GPUs have reasons"
        args.append(context.device(context.gpu))
        if facts.writes:
            args.append(keyword("writes", tuple_of([str(position) for position in facts.writes])))
        if facts.constants:
            constants = list_of([context.buffer(name) for name in facts.constants])
            writer.lines(*statement(constants, 0, head="cuda_constants = lambda: "))
            args.append(keyword("constants", "cuda_constants"))
        args.append(keyword("limit", str(facts.limit)))
        if facts.has_branches:
            args.append(keyword("branches", "True"))
        if facts.results != "fresh":
            args.append(keyword("results", literals.string(facts.results)))
        if context.checks != "always":
            args.append(keyword("checks", "False"))
    made = call(context.helper("CudaGraphs"), *args)
    writer.lines(*statement(made, 0, head="cuda_graphs = "))
