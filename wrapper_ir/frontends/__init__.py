"""Front ends, which make wrapper programs.

``wrapper_ir.frontends.inductor`` converts PyTorch Inductor's output. It is imported on first use,
because it needs torch and is the only package that uses torch's private parts.
``wrapper_ir.frontends.aten`` converts graphs of ATen ops and uses public torch alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wrapper_ir.lazy import names_of

__all__ = ["aten", "inductor"]

if not TYPE_CHECKING:
    __getattr__ = names_of(__name__, {}, __all__)


def __dir__() -> list[str]:
    """List the front ends."""
    return list(__all__)
