"""Comparing programs by meaning: a canonical form for equal ones, and diffs of others."""

from __future__ import annotations

from wrapper_ir.diffing.canonical_form import canonical
from wrapper_ir.diffing.model import (
    FieldChange,
    Figures,
    ItemChange,
    KernelChange,
    Kind,
    LineChange,
    ProgramDiff,
    RegionChange,
    SourceChange,
    SourceDiff,
    TextChange,
)
from wrapper_ir.diffing.programs import aligned, diff
from wrapper_ir.diffing.sequences import diff_sources

__all__ = ["FieldChange", "Figures", "ItemChange", "KernelChange", "Kind", "LineChange"]
__all__ += ["ProgramDiff", "RegionChange", "SourceChange", "SourceDiff", "TextChange", "aligned"]
__all__ += ["canonical", "diff", "diff_sources"]
