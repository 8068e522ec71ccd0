"""Extension modules of our own, of one C++ file each: compiled once, then found in the cache.

What such a file is compiled to depends on PyTorch, Python and the compiler, on no program.
"""

from __future__ import annotations

import hashlib
import importlib.machinery
import importlib.util
from typing import TYPE_CHECKING, Any

from wrapper_ir.toolchain.cache import DiskCache, default_cache
from wrapper_ir.toolchain.compiler import (
    Compiler,
    CompilerRunError,
    find_compiler,
    include_dirs,
    link_flags,
    run,
)
from wrapper_ir.toolchain.errors import CompileError, LibraryLoadError, LinkError
from wrapper_ir.toolchain.kernels import environment
from wrapper_ir.toolchain.native import native_flags

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["load_extension"]

#: Raise it when modules that were made otherwise must not be found any more.
_FORMAT = 1


def load_extension(name: str, source: Path) -> Any:  # noqa: ANN401 - a module without types
    """Return the extension module ``name``, compiled now if no process has done so before.

    Raises:
        CompileError: It does not compile.
        LinkError: It does not link.
        LibraryLoadError: It cannot be loaded.
        CacheDirError: The cache's directory cannot be used.
    """
    cache = default_cache()
    compiler = find_compiler(cache)
    key = _key(name, source, compiler)
    file = cache.get(key, "so")
    if file is None:
        with cache.locked([key]):
            file = cache.get(key, "so") or _build(name, source, cache, compiler, key)
    return _load(name, file)


def _build(name: str, source: Path, cache: DiskCache, compiler: Compiler, key: str) -> Path:
    with cache.scratch() as scratch:
        unit, library = str(scratch / "unit.o"), scratch / f"{name}.so"
        flags = [*native_flags(compiler), "-w", f"-I{include_dirs()[0]}"]
        try:
            run([*compiler.command, *flags, "-c", str(source), "-o", unit])
        except CompilerRunError as error:
            unit_name = f"a part of wrapper_ir ({source.name})"
            raise CompileError(
                unit=unit_name, command=error.command, excerpt="", output=error.output
            ) from error
        try:
            run([*compiler.command, unit, "-o", str(library), *link_flags(), "-ldl", "-s"])
        except CompilerRunError as error:
            raise LinkError(command=error.command, output=error.output) from error
        return cache.put(key, "so", library)


def _load(name: str, file: Path) -> Any:  # noqa: ANN401 - a module without types
    loader = importlib.machinery.ExtensionFileLoader(name, str(file))
    spec = importlib.util.spec_from_loader(name, loader)
    try:
        if spec is None:
            raise ImportError("no module specification")
        module = importlib.util.module_from_spec(spec)
        loader.exec_module(module)
    except ImportError as error:
        raise LibraryLoadError(library=str(file), reason=str(error)) from error
    return module


def _key(name: str, source: Path, compiler: Compiler) -> str:
    parts = (str(_FORMAT), name, environment(), compiler.version, source.read_text("utf-8"))
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()
