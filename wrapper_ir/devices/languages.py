"""The languages of kernels that the library knows."""

from __future__ import annotations

from typing import Final

from wrapper_ir.devices.kind import KernelLanguage

CPP: Final = KernelLanguage("C++", "C++ kernels do not run on {device}")
"""Functions of this process, compiled by the C++ compiler."""

TRITON: Final = KernelLanguage(
    "Triton", "Triton kernels are only launched on GPUs", has_grid=True, package="triton"
)
"""Triton's language; its compiler is a package of Python."""
