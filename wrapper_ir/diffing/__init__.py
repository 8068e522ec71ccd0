"""Comparing programs by meaning: a canonical form for equal ones, structures, and diffs."""

# ruff: noqa: F403 - what a module lists in its __all__ is public here

from __future__ import annotations

from wrapper_ir.diffing import model, sets
from wrapper_ir.diffing.canonical_form import canonical
from wrapper_ir.diffing.model import *
from wrapper_ir.diffing.programs import aligned, diff
from wrapper_ir.diffing.sequences import diff_sources
from wrapper_ir.diffing.sets import *
from wrapper_ir.diffing.structural_form import structure

__all__ = ["aligned", "canonical", "diff", "diff_sources", "structure"]
__all__ += model.__all__
__all__ += sets.__all__
