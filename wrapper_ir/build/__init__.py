"""The builder: the front end for programs written by hand. Needs no torch."""

from __future__ import annotations

from wrapper_ir.build.builder import Builder
from wrapper_ir.build.errors import (
    ArgumentError,
    BuildError,
    ForeignValueError,
    IllegalNameError,
    LayoutError,
    NameTakenError,
    ResultError,
    UnfinishedError,
)
from wrapper_ir.build.values import Buffer, Kernel, Object, Result

__all__ = [
    "ArgumentError",
    "Buffer",
    "BuildError",
    "Builder",
    "ForeignValueError",
    "IllegalNameError",
    "Kernel",
    "LayoutError",
    "NameTakenError",
    "Object",
    "Result",
    "ResultError",
    "UnfinishedError",
]
