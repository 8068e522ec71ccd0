"""Triton kernels of programs, as Triton's compiler takes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wrapper_ir.toolchain.triton import TritonSource

if TYPE_CHECKING:
    from wrapper_ir.lines.kernels import TritonKernel


def source_of(name: str, kernel: TritonKernel) -> TritonSource:
    """Return a program's kernel as the compiler takes it."""
    launch = {"num_warps": kernel.num_warps, "num_stages": kernel.num_stages}
    return TritonSource(
        name,
        dict(kernel.signature),
        kernel.code,
        kernel.entry,
        dict(kernel.constants),
        {**dict(kernel.options), **launch},
    )
