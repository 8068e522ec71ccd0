"""Rendering the lines of one region as nodes of one graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

from typing_extensions import override

from wrapper_ir.emitters.fx import probes
from wrapper_ir.emitters.fx.control import ControlLines
from wrapper_ir.emitters.fx.memory import MemoryLines
from wrapper_ir.emitters.fx.symbols import SymbolLines

if TYPE_CHECKING:
    from wrapper_ir.lines.streams import RecordEvent, Synchronize, WaitEvent
    from wrapper_ir.lines.trace import Comment, Probe


class RegionRenderer(MemoryLines, ControlLines, SymbolLines):
    """Renders the lines of a region into a graph, one after the other."""

    @override
    def visit_comment(self, line: Comment) -> None:
        self.remark(line.text)

    @override
    def visit_probe(self, line: Probe) -> None:
        buffers = [self.node(name) for name in line.buffers]
        scalars = [self.number(value) for value in line.scalars]
        self.call(probes.SHOW, buffers, probes.spec_of(line, self.context.program), scalars)

    # Streams: a line of theirs is refused before it comes here.

    @override
    def visit_record_event(self, line: RecordEvent) -> None:
        """There is nothing to do."""

    @override
    def visit_wait_event(self, line: WaitEvent) -> None:
        """There is nothing to do."""

    @override
    def visit_synchronize(self, line: Synchronize) -> None:
        """There is nothing to do."""
