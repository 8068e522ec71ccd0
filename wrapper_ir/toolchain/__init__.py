"""The path from C++ text to loaded code, shared by every emitter.

``build_kernels`` is the entry point. ``isa`` knows the CPU, ``compiler`` the compiler and its
flags, ``cache`` the disk. PyTorch is imported only when something is compiled or loaded, and the
modules here only on first use of one of their names (PEP 562), so opening a library does not pay
for importing the compiler driver.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

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

_HOMES = ("errors", "cache", "compiler", "isa", "source", "kernels")


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever has that name
    """Import a public name from its module on first use."""
    for home in _HOMES if name in __all__ else ():
        module = import_module(f"{__name__}.{home}")
        if hasattr(module, name):
            value = globals()[name] = getattr(module, name)
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
