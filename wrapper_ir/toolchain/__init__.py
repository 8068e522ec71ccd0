"""One way to turn C++ text into loaded code, shared by every emitter.

``build_kernels`` is the way in; ``isa`` knows the CPU, ``compiler`` the compiler and its flags,
``cache`` the disk. PyTorch is imported only when something is compiled or loaded.
"""

from wrapper_ir.toolchain.cache import CacheStats, DiskCache, default_cache
from wrapper_ir.toolchain.compiler import Compiler, find_compiler
from wrapper_ir.toolchain.errors import (
    CacheDirError,
    CompileError,
    CompilerNotFoundError,
    IsaError,
    KernelSourceError,
    LibraryLoadError,
    LinkError,
)
from wrapper_ir.toolchain.isa import Isa
from wrapper_ir.toolchain.kernels import build_kernels, prepare
from wrapper_ir.toolchain.source import CppSource

__all__ = [
    "CacheDirError",
    "CacheStats",
    "CompileError",
    "Compiler",
    "CompilerNotFoundError",
    "CppSource",
    "DiskCache",
    "Isa",
    "IsaError",
    "KernelSourceError",
    "LibraryLoadError",
    "LinkError",
    "build_kernels",
    "default_cache",
    "find_compiler",
    "prepare",
]
