"""What ``validate`` finds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import wrapper_ir.lines as ir
from wrapper_ir.verify.diagnostics import Diagnostic


@dataclass(frozen=True, slots=True)
class NotShown:
    """A line of which the witness says too little.

    Attributes:
        path: The line; empty for an input or a result.
        part: The input or result, such as ``results[0]``; empty for a line.
        why: The reason.
        source: The source line in the model, if known.
    """

    path: ir.Path
    part: str
    why: str
    source: str = ""

    def __str__(self) -> str:
        place = str(self.path) or self.part
        return f"{place}: {self.why}" + (f" ({self.source})" if self.source else "")

    def as_data(self) -> dict[str, str]:
        """Return it as plain data, for JSON."""
        where = {"path": str(self.path), "part": self.part, "source": self.source}
        return {**where, "why": self.why}


@dataclass(frozen=True, slots=True)
class Validation:
    """What was found of a program.

    Attributes:
        lines: The number of lines, and results.
        faults: Where the program does something else than the graph.
        not_shown: Lines and results of which nothing can be said.
        compared: The number of tensors whose values were compared, if the program was run.
        skipped: The numbers of tensors that could not be, by reason.
    """

    lines: int
    faults: tuple[Diagnostic, ...]
    not_shown: tuple[NotShown, ...] = ()
    compared: int = 0
    skipped: Mapping[str, int] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """True if there are no faults."""
        return not self.faults

    def as_data(self) -> dict[str, Any]:
        """Return it as plain data: what ``wrapper-ir validate --json`` prints."""
        return {
            "lines": self.lines,
            "faults": [each.as_data() for each in self.faults],
            "not_shown": [each.as_data() for each in self.not_shown],
            "compared": self.compared,
            "skipped": dict(self.skipped),
        }

    def __str__(self) -> str:
        shown = self.lines - len({(each.path, each.part) for each in self.not_shown})
        head = f"{shown} of {self.lines} lines and results shown, {len(self.faults)} faults"
        if self.compared:
            head += f", {self.compared} values compared"
        if self.skipped:
            head += f" ({', '.join(f'{n} {why}' for why, n in self.skipped.items())})"
        return "\n".join((head, *map(str, self.faults), *map(str, self.not_shown)))
