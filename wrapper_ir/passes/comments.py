"""The pass that removes comments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from wrapper_ir.lines import rewrite_lines
from wrapper_ir.lines.base import Trait

if TYPE_CHECKING:
    from wrapper_ir.lines import Program


@dataclass(frozen=True, slots=True)
class StripComments:
    """``strip-comments`` removes comments, including those in regions."""

    name: ClassVar[str] = "strip-comments"

    def __call__(self, program: Program) -> Program:
        """Return the program without comments."""
        body = rewrite_lines(
            program.body, lambda line: () if Trait.REMARK in line.traits else (line,)
        )
        return program if body == program.body else program.replace(body=body)
