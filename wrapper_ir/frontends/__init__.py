"""Front ends, which make wrapper programs.

``wrapper_ir.frontends.inductor`` converts PyTorch Inductor's output. It is imported on first use,
because it needs torch and is the only package that uses torch's private parts.
``wrapper_ir.frontends.aten`` converts graphs of ATen ops and uses public torch alone.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType

__all__ = ["aten", "inductor"]


def __getattr__(name: str) -> ModuleType:
    """Import a front end on first use (PEP 562)."""
    if name in __all__:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """List the front ends."""
    return list(__all__)
