"""The ATen front end: from a graph of ATen ops to a program, without Inductor.

Each op of the graph becomes one :class:`~wrapper_ir.lines.ExternKernel`: nothing is fused, nothing
is decomposed that need not be. Only public parts of torch are used.
"""

from __future__ import annotations

from wrapper_ir.frontends.aten.errors import (
    ExportError,
    NotAModelError,
    NotAnAtenGraphError,
    Problem,
    UnsupportedGraphError,
)
from wrapper_ir.frontends.aten.frontend import capture, from_fx

__all__ = [
    "ExportError",
    "NotAModelError",
    "NotAnAtenGraphError",
    "Problem",
    "UnsupportedGraphError",
    "capture",
    "from_fx",
]
