"""The builder: the front end for programs written by hand. Needs no torch."""

from __future__ import annotations

from wrapper_ir.build.builder import Builder
from wrapper_ir.build.values import (
    ArgumentError,
    Buffer,
    BuildError,
    ForeignValueError,
    IllegalNameError,
    Kernel,
    LayoutError,
    NameTakenError,
    Object,
    Result,
    ResultError,
    UnfinishedError,
)

__all__ = ["ArgumentError", "Buffer", "BuildError", "Builder", "ForeignValueError"]
__all__ += ["IllegalNameError", "Kernel", "LayoutError", "NameTakenError", "Object", "Result"]
__all__ += ["ResultError", "UnfinishedError"]
