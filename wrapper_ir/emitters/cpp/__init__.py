"""C++ text of programs: data tables and one function over PyTorch's C shim.

The emitter itself is :class:`wrapper_ir.aot.emitter.CppEmitter`, as its artifacts build, load and
export what is rendered here.
"""

from __future__ import annotations

from wrapper_ir.emitters.cpp.renderer import CppRenderer, CppSources
from wrapper_ir.toolchain.source import KernelUnit

__all__ = ["CppRenderer", "CppSources", "KernelUnit"]
