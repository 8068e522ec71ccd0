"""The path from C++ text to loaded code, shared by every emitter.

``build_kernels`` is the entry point. ``isa`` knows the CPU, ``compiler`` the compiler and its
flags, ``cache`` the disk. PyTorch is imported only when something is compiled or loaded, and the
modules here only on first use of one of their names (PEP 562), so opening a library does not pay
for importing the compiler driver.
"""

from typing import TYPE_CHECKING

from wrapper_ir.lazy import names_of

if TYPE_CHECKING:
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

if not TYPE_CHECKING:
    __getattr__ = names_of(
        __name__,
        {
            ".cache": ("CacheStats", "DiskCache", "default_cache"),
            ".compiler": ("Compiler", "find_compiler"),
            ".errors": tuple(name for name in __all__ if name.endswith("Error")),
            ".isa": ("Isa",),
            ".kernels": ("build_kernels", "prepare"),
            ".source": ("CppSource",),
        },
    )
