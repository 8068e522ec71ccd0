"""Rendering the lines of one region as statements of one function."""

from __future__ import annotations

from typing import TYPE_CHECKING

from typing_extensions import override

from wrapper_ir.emitters.facts import free_region_symbols, origin_place
from wrapper_ir.emitters.python import literals
from wrapper_ir.emitters.python.calls import CallLines
from wrapper_ir.emitters.python.memory import MemoryLines
from wrapper_ir.emitters.python.region import params_of
from wrapper_ir.emitters.python.statements import (
    Node,
    call,
    flat,
    statement,
    tuple_of,
)
from wrapper_ir.emitters.python.statements import keyword as named
from wrapper_ir.emitters.python.streams import StreamLines
from wrapper_ir.emitters.python.symbols import SymbolLines
from wrapper_ir.emitters.storages import last_uses
from wrapper_ir.emitters.writer import CodeWriter
from wrapper_ir.lines.trace import ProbeLevel, shown_names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wrapper_ir.lines.control import Cond, Region, While
    from wrapper_ir.lines.trace import Comment, Probe


__all__ = ["RegionRenderer"]


class RegionRenderer(StreamLines, MemoryLines, CallLines, SymbolLines):
    """Renders the lines of a region into a writer, one after the other."""

    @override
    def visit_cond(self, line: Cond) -> None:
        symbols = self._symbols(line.then, line.orelse)
        then = self._function(line.then, "then", "cond_{}_then", symbols)
        orelse = self._function(line.orelse, "else", "cond_{}_else", symbols)
        operands = [self.arg(line, arg) for arg in line.operands]
        predicate = _as_operand(flat(self.arg(line, line.predicate)))
        branch = self.context.names.fresh("branch")
        choice = f"{then} if {predicate} else {orelse}"
        self.put(statement(choice, self.writer.width, head=f"{branch} = "))
        value = call(branch, *operands, *map(self.context.symbol, symbols))
        self.results(line, line.results, value, len(line.then.results))

    @override
    def visit_while(self, line: While) -> None:
        symbols = self._symbols(line.condition, line.body)
        captured = [self.arg(line, arg) for arg in line.captured]
        captured += map(self.context.symbol, symbols)
        value = call(
            self.context.helper("run_while_stacked" if line.stacked else "run_while"),
            self._function(line.condition, "condition", "while_{}_condition", symbols),
            self._function(line.body, "body", "while_{}_body", symbols),
            tuple_of([self.arg(line, arg) for arg in line.carried]),
            tuple_of(captured),
        )
        self.results(line, line.results, value, len(line.carried))

    def _symbols(self, *regions: Region) -> list[str]:
        """The symbols that regions need from outside; functions made of them take these last."""
        program = self.context.program
        return sorted({s for region in regions for s in free_region_symbols(region, program)})

    def _function(self, region: Region, step: str, wanted: str, symbols: Sequence[str]) -> str:
        """Renders a region as a function of the module and returns its name."""
        label = "_".join(str(each.position) for each in self.path)
        name = self.context.names.fresh(wanted.format(label))
        writer = CodeWriter()
        last = last_uses(region, self.context.program)
        inner = RegionRenderer(self.context, region, writer, last)
        inner.show_origins = self.show_origins
        params = [params_of(self.context, p) for p in region.params]
        params += map(self.context.symbol, symbols)
        with writer.at(self.path):
            inner.put(statement(call(name, *params), 0, head="def ", tail=":"))
        with writer.indent():
            for index in range(len(region.body)):
                inner.render(index, self.path.then(step, index))
            with writer.at(self.path):
                inner.returned()
        functions = self.context.section("functions")
        functions.blank(2)
        functions.extend(writer)
        return name

    # Remarks.

    @override
    def visit_comment(self, line: Comment) -> None:
        self.writer.lines(*literals.comment(line.text))

    @override
    def visit_probe(self, line: Probe) -> None:
        name = self.context.names.fresh(f"show_{line.when.value}")
        section = self.context.section("probes")
        section.lines(*statement(self._probe(line), 0, head=f"{name} = "))
        values: list[Node] = [self.context.buffer(buffer) for buffer in line.buffers]
        values += [self.context.expr(value) for value in line.scalars]
        self.put(statement(call(name, *values), self.writer.width))

    def _probe(self, line: Probe) -> Node:
        """The making of the function that stands for a probe."""
        args: list[Node] = [
            literals.string(text) for text in (line.label, line.when.value, line.level.value)
        ]
        if line.buffers or line.scalars:
            shown = shown_names(line, self.context.program)
            args.append(tuple_of([literals.string(text) for text in shown]))
        if line.scalars:
            args.append(tuple_of([literals.string(str(value)) for value in line.scalars]))
        source = origin_place(line, self.context.program)
        if source and line.level is not ProbeLevel.NAMES:
            args.append(named("source", literals.string(source)))
        return call(self.context.helper("make_probe"), *args)


def _as_operand(text: str) -> str:
    return text if text.replace("_", "").isalnum() else f"({text})"
