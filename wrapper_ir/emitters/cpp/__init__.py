"""The C++ emitter: data tables and one function over PyTorch's C shim."""

from __future__ import annotations

from wrapper_ir.emitters.cpp.artifact import CppArtifact
from wrapper_ir.emitters.cpp.emitter import CppEmitter
from wrapper_ir.toolchain.source import KernelUnit

__all__ = ["CppArtifact", "CppEmitter", "KernelUnit"]
