"""Front ends: where wrapper programs come from.

``wrapper_ir.frontends.inductor`` takes them from PyTorch Inductor. It is imported when it is first
used: it needs torch, and reaches into its private parts, which no other package does.
``wrapper_ir.frontends.aten`` takes them from graphs of ATen ops, by public torch alone.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType

__all__ = ["aten", "inductor"]


def __getattr__(name: str) -> ModuleType:
    """Import a front end when it is first asked for (PEP 562)."""
    if name in __all__:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """List the front ends."""
    return list(__all__)
