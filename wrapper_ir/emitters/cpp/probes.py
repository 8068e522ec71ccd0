"""Rendering probes: one branch each, and a row in a table of what is known of it before the run.

The branch does everything: where the wrapper holds no tensor of just the layout of a buffer, but
another view of its storage or an address, the tensor is made inside. So a probe that is off costs
the branch, and what is around it is the same as without probes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from typing_extensions import override

from wrapper_ir.emitters.cpp import literals
from wrapper_ir.emitters.cpp.context import ProbeRow
from wrapper_ir.emitters.cpp.region import RegionBase
from wrapper_ir.emitters.cpp.text import table
from wrapper_ir.emitters.cpp.types import CType
from wrapper_ir.emitters.facts import origin_place
from wrapper_ir.lines.trace import Probe, When

if TYPE_CHECKING:
    from wrapper_ir.emitters.writer import CodeWriter
    from wrapper_ir.lines.expr import Scalar


_KINDS: Final = {CType.INT: "kInteger", CType.REAL: "kReal", CType.BOOL: "kBool"}


class ProbeLines(RegionBase):
    """Renders probes."""

    @override
    def visit_probe(self, line: Probe) -> None:
        head = f"{line.label} {line.when.value}"
        self.put("if (call.probes != nullptr) {")
        with self.writer.indent():
            self.writer.lines(*literals.comment(head))
            if line.buffers or line.scalars:
                self.mark(line)
            values = [f"{{.tensor = {self._tensor(name)}}}" for name in line.buffers]
            operands = [(name, "kTensor") for name in self.context.program.shown_names(line)]
            for value in line.scalars:
                kind, slots = self._number(value)
                values += slots
                operands.append((str(value), kind))
            source = origin_place(line, self.context.program)
            number = self.context.probe(ProbeRow(line, source, tuple(operands)))
            self.put(f"call.probes->show({number}, {{{', '.join(values)}}});")
        self.writer.line("}")

    def _tensor(self, name: str) -> str:
        """The handle of a tensor of just the buffer's layout."""
        place = self.places.get(name) or self.declared.state.shown(name)
        if place.exact:
            return self.read(place).handle
        wanted = self.context.names.fresh(f"{self.context.buffer(name)}_shown")
        self.put(f"const wir::Tensor {wanted} = {self.new_view(place, name)};")
        return wanted

    def _number(self, value: Scalar) -> tuple[str, list[str]]:
        """The kind of a number, and the slots that hold it."""
        if isinstance(value, complex):
            parts = (value.real, value.imag)
            return "kComplex", [f"{{.real = {literals.real(part)}}}" for part in parts]
        found = self.expr(value)
        member = "real" if found.type is CType.REAL else "integer"
        return _KINDS[found.type], [f"{{.{member} = {found.text}}}"]


def write_probes(rows: list[ProbeRow], writer: CodeWriter) -> None:
    """Writes the table of probes, and that of all that they show."""
    operands: list[str] = []
    probes = []
    for row in rows:
        begin = f"kProbeOperands + {len(operands)}" if row.operands else "nullptr"
        parts = (
            literals.string(row.line.label),
            "true" if row.line.when is When.AFTER else "false",
            f"wir::ProbeLevel::k{row.line.level.value.title().replace('_', '')}",
            literals.string(row.source),
            str(len(row.operands)),
            begin,
        )
        probes.append(f"{{{', '.join(parts)}}}")
        operands += [
            f"{{{literals.string(name)}, wir::ProbeOperand::Kind::{kind}}}"
            for name, kind in row.operands
        ]
    for head, found in (
        ("constexpr wir::ProbeOperand kProbeOperands[]", operands),
        ("constexpr wir::ProbeInfo kProbes[]", probes),
    ):
        if found:
            writer.blank()
            writer.lines(*table(head, found))
