"""The ATen front end: from a graph of ATen ops to a program, without Inductor.

Each op of the graph becomes one :class:`~wrapper_ir.lines.ExternKernel`. Nothing is fused, and ops
are decomposed only if necessary. The front end uses public torch alone.
"""

from __future__ import annotations

from wrapper_ir.frontends.aten.frontend import capture, from_fx
from wrapper_ir.frontends.aten.state import (
    ExportError,
    NotAModelError,
    NotAnAtenGraphError,
    Problem,
    UnsupportedGraphError,
)

__all__ = [
    "ExportError",
    "NotAModelError",
    "NotAnAtenGraphError",
    "Problem",
    "UnsupportedGraphError",
    "capture",
    "from_fx",
]
