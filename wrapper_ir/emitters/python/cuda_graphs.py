"""Capture of calls as CUDA graphs: an object that is the outermost decorator of ``call``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from wrapper_ir.emitters.python import literals
from wrapper_ir.emitters.python.literals import Node, call, keyword, list_of, statement, tuple_of
from wrapper_ir.emitters.regions import capture_facts

if TYPE_CHECKING:
    from wrapper_ir.emitters.python.context import Context
    from wrapper_ir.emitters.writer import CodeWriter


_GRAPHS: Final = "cuda_graphs"


def render_graphs(context: Context) -> str | None:
    """Define ``cuda_graphs`` and return its name; None if calls are not captured.

    It has the facts about the program, or the reasons not to capture it. A program whose pieces are
    captured one by one has ``CutGraphs``.
    """
    options = context.options.graphs
    if options is None:
        return None
    facts = capture_facts(context.program, options)
    args: list[Node] = [literals.string(context.program.name)]
    is_cut = bool(context.pieces)
    if facts.reasons and not is_cut:
        texts = tuple_of([literals.string(reason) for reason in facts.reasons])
        args.append(keyword("reasons", texts))
    else:
        assert context.accelerator is not None, "programs on several GPUs have reasons, no pieces"
        args.append(context.device(context.accelerator))
        if facts.writes:
            args.append(keyword("writes", tuple_of([str(position) for position in facts.writes])))
        if facts.constants:
            constants = list_of([context.buffer(name) for name in facts.constants])
            writer = context.section("kept")
            writer.lines(*statement(constants, 0, head="cuda_constants = lambda: "))
            args.append(keyword("constants", "cuda_constants"))
        if facts.copied:
            args.append(keyword("copied", tuple_of([str(position) for position in facts.copied])))
        args.append(keyword("limit", str(options.cuda_graph_limit)))
        if facts.has_branches:
            args.append(keyword("branches", "True"))
        if facts.results != "fresh":
            args.append(keyword("results", literals.string(facts.results)))
        if context.options.checks != "always":
            args.append(keyword("checks", "False"))
    kind = context.helper("CutGraphs" if is_cut else "CudaGraphs")
    context.define("kept", _GRAPHS, call(kind, *args))
    return _GRAPHS


def render_piece(context: Context, position: int, writer: CodeWriter) -> None:
    """Write the decorator that captures the function of the piece at a position of the body."""
    piece = context.pieces[position]
    args: list[Node] = [literals.string(piece.place)]
    for word, positions in (
        ("writes", piece.writes),
        ("settled", piece.settled),
        ("shared", piece.shared),
    ):
        if positions:
            args.append(keyword(word, tuple_of([str(n) for n in positions])))
    if piece.constants:
        listed = ", ".join(map(context.buffer, piece.constants))
        args.append(keyword("constants", f"lambda: [{listed}]"))
    writer.lines(*statement(call(f"{_GRAPHS}.piece", *args), 0, head="@"))
