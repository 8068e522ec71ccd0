"""Comparing programs by meaning: a canonical form for equal ones, and diffs of others."""

# ruff: noqa: F403 - what a module lists in its __all__ is public here

from __future__ import annotations

from wrapper_ir.diffing import model
from wrapper_ir.diffing.canonical_form import canonical
from wrapper_ir.diffing.model import *
from wrapper_ir.diffing.programs import aligned, diff
from wrapper_ir.diffing.sequences import diff_sources

__all__ = ["aligned", "canonical", "diff", "diff_sources"]
__all__ += model.__all__
