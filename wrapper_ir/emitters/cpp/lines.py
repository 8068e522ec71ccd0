"""Rendering the lines of one region as statements of one function."""

from __future__ import annotations

from typing import TYPE_CHECKING

from typing_extensions import override

from wrapper_ir.emitters.cpp import literals
from wrapper_ir.emitters.cpp.calls import CallLines
from wrapper_ir.emitters.cpp.control import ControlLines
from wrapper_ir.emitters.cpp.memory import MemoryLines
from wrapper_ir.emitters.cpp.probes import ProbeLines
from wrapper_ir.emitters.cpp.symbols import SymbolLines

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wrapper_ir.emitters.writer import CodeWriter
    from wrapper_ir.lines.control import Region
    from wrapper_ir.lines.streams import RecordEvent, Synchronize, WaitEvent
    from wrapper_ir.lines.trace import Comment


class RegionRenderer(MemoryLines, CallLines, SymbolLines, ControlLines, ProbeLines):
    """Renders the lines of a region into a writer, one after the other."""

    @override
    def inner(self, region: Region, writer: CodeWriter, last: Mapping[str, int]) -> RegionRenderer:
        return RegionRenderer(self.context, self.declared, region, writer, last)

    @override
    def visit_comment(self, line: Comment) -> None:
        self.writer.lines(*literals.comment(line.text))

    # Streams: lines of others than branches of captured graphs are refused before they come here.

    @override
    def visit_record_event(self, line: RecordEvent) -> None:
        self.mark(line)
        self.put(f"call.branches->record({line.event}, {line.stream});")

    @override
    def visit_wait_event(self, line: WaitEvent) -> None:
        self.mark(line)
        self.put(f"call.branches->wait({line.event}, {line.stream});")

    @override
    def visit_synchronize(self, line: Synchronize) -> None:
        """There is nothing to do."""
