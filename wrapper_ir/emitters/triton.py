"""Triton kernels of programs, as builds take them."""

from __future__ import annotations

from dataclasses import dataclass

from wrapper_ir.toolchain.triton import TritonSource


@dataclass(frozen=True, slots=True)
class GpuUnit:
    """A Triton kernel that the files of a program in C++ launch.

    Attributes:
        symbol: The C symbol of its machine code, which the build makes. It follows from the
            kernel's content, so two kernels share one exactly when they are the same.
        source: The kernel.
    """

    symbol: str
    source: TritonSource
