"""What made-up programs have in them: which lines touch buffers of which element types."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import get_args

from wrapper_ir.lines import (
    DType,
    KernelDefinition,
    Program,
    walk,
)
from wrapper_ir.lines.effects import effects
from wrapper_ir.lines.program import AnyLine

#: The line of each kind, by its class's name.
KINDS = tuple(kind.__name__ for kind in get_args(AnyLine))


@dataclass
class Reach:
    """Counts of lines, and of lines by the element types of the buffers that they name."""

    kinds: Counter[str] = field(default_factory=Counter)
    dtypes: Counter[tuple[str, DType]] = field(default_factory=Counter)

    def add(self, program: Program) -> None:
        """Counts the lines of a program."""
        for _, line in walk(program):
            kind = type(line).__name__
            self.kinds[kind] += 1
            if isinstance(line, KernelDefinition):
                continue
            found = effects(line, program)
            names = {*found.defines, *found.touched}
            for dtype in {program.layout(name).dtype for name in names}:
                self.dtypes[kind, dtype] += 1

    @property
    def missing(self) -> list[str]:
        """Kinds of lines that no program has."""
        return [kind for kind in KINDS if not self.kinds[kind]]

    def table(self) -> str:
        """A row for each kind of line, a column for each element type."""
        used = [d for d in DType if any(self.dtypes[kind, d] for kind in KINDS)]
        widths = [max(7, len(d.short)) for d in used]
        head = "  ".join(f"{d.short:>{w}}" for d, w in zip(used, widths, strict=True))
        rows = [f"{'':17}{'lines':>9}  {head}"]
        for kind in KINDS:
            cells = (
                f"{self.dtypes[kind, d] or '':>{w}}" for d, w in zip(used, widths, strict=True)
            )
            rows.append(f"{kind:17}{self.kinds[kind]:>9}  {'  '.join(cells)}".rstrip())
        return "\n".join(rows)
