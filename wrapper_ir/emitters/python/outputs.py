"""Rendering what is done with memory that callers give for results."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wrapper_ir.emitters.beginning import find_beginning
from wrapper_ir.emitters.facts import placed_results
from wrapper_ir.emitters.python.region import params_of
from wrapper_ir.emitters.python.statements import Node, call, statement
from wrapper_ir.lines.args import BufferValue
from wrapper_ir.lines.control import BufferInput

if TYPE_CHECKING:
    from wrapper_ir.emitters.python.context import Context
    from wrapper_ir.emitters.python.lines import RegionRenderer
    from wrapper_ir.lines.layout import Layout


class OutputLines:
    """The part of ``call`` that looks at what was given, and the definitions that it needs."""

    def __init__(self, context: Context, renderer: RegionRenderer) -> None:
        self._context = context
        self._renderer = renderer
        self._early = find_beginning(context.program).symbols
        renderer.takes_out = True
        for name, position in placed_results(context.program).items():
            layout = self._layout(position)
            assert layout is not None
            if layout.symbols <= self._early:
                renderer.placed[name] = (position, None)
            elif layout.symbols <= context.program.layout(name).symbols:
                renderer.placed[name] = (position, layout)

    def _layout(self, position: int) -> Layout | None:
        value = self._context.program.results[position]
        if isinstance(value, BufferValue):
            return self._context.program.layout(value.buffer)
        return None

    def take(self) -> None:
        """Writes the check of what was given, as far as sizes are known by then."""
        context, writer = self._context, self._renderer.writer
        program = context.program
        layouts = [self._layout(position) for position in range(len(program.results))]
        specs: list[Node] = [
            (
                context.spec(value.buffer, layout)
                if isinstance(value, BufferValue) and layout is not None
                else "None"
            )
            for value, layout in zip(program.results, layouts, strict=True)
        ]
        made = call(context.helper("Outputs"), *specs)
        context.section("checks").lines(*statement(made, 0, head="outputs = "))
        others = [params_of(context, p) for p in program.inputs if isinstance(p, BufferInput)]
        others += map(context.buffer, program.constants)
        writer.line("outs = outputs.fresh")
        writer.line("if out is not None:")
        with writer.indent():
            given = call("outputs.given", "out", *others)
            writer.lines(*statement(given, writer.width, head="outs = "))
            for position, layout in enumerate(layouts):
                if layout and layout.symbols and layout.symbols <= self._early:
                    self._renderer.check_out(position, layout)
