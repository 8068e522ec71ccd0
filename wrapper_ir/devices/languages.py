"""The languages of kernels that the library knows."""

from __future__ import annotations

from typing import Final

from wrapper_ir.devices.kind import KernelLanguage

CPP: Final = KernelLanguage("C++", "C++ kernels do not run on {device}")
"""Functions of this process, compiled by the C++ compiler."""

TRITON: Final = KernelLanguage(
    "Triton",
    "Triton kernels are only launched on GPUs",
    has_grid=True,
    package="triton",
    types={
        "f64": "fp64",
        "f32": "fp32",
        "f16": "fp16",
        "bf16": "bf16",
        "f8e4m3fn": "fp8e4nv",
        "f8e5m2": "fp8e5",
        **{name: name for name in ("i64", "i32", "i16", "i8", "u64", "u32", "u16", "u8")},
        "bool": "i1",
    },
)
"""Triton's language; its compiler is a package of Python."""

WITH_GRID: Final = tuple(language for language in (CPP, TRITON) if language.has_grid)
"""Those whose kernels are launched over a grid."""
