"""Legalisation: what a target cannot express becomes lines that it can, one idea a file.

Each step takes a planned program and returns one with the same results, bit for bit, or the same
object if there is nothing to do. What they add is allocated, written and freed by lines, so the
verifier, the printer, the diff and every emitter see it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from wrapper_ir.lines import Program, Stage
from wrapper_ir.options.declared import Legal


@dataclass(frozen=True, slots=True)
class Legalise(Legal):
    """``legalise`` turns what a target cannot render into lines that it can.

    Its options are what an emitter declares to be legal; by default that is everything.
    """

    name: ClassVar[str] = "legalise"

    def __call__(self, program: Program) -> Program:
        """Return the program without what is not legal; one that is not planned is unchanged."""
        if program.stage is not Stage.PLANNED:
            return program
        # ruff: noqa: PLC0415 - the planner is large, and most targets have nothing to lower
        from wrapper_ir.passes.legalise.copies import copy_round_writes, separate_loops
        from wrapper_ir.passes.legalise.types import replace_reuse, split_pools
        from wrapper_ir.planning import insert_frees

        result = program if self.mixed_pools else split_pools(program)
        result = result if self.retyped_reuse else replace_reuse(result)
        result = copy_round_writes(result, self)
        result = result if self.shared_loops else separate_loops(result)
        # A result that may be a copy keeps it alive, and a slice its part of a pool.
        return program if result is program else insert_frees(result, free_inputs=False)
