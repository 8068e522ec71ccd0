"""Extension modules of our own, of one C++ file each: compiled once, then found in the cache.

What such a file is compiled to depends on PyTorch, Python and the compiler, on no program.
"""

from __future__ import annotations

import hashlib
import importlib.machinery
import importlib.util
from dataclasses import dataclass
from pathlib import Path
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
from wrapper_ir.toolchain.native import native_flags, native_include_dirs

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Raise it when modules that were made otherwise must not be found any more.
_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Extension:
    """An extension module and the file that it is made of.

    Attributes:
        name: The module's.
        source: The file.
        texts: Files and folders of ours that it includes: with them it changes.
    """

    name: str
    source: Path
    texts: tuple[Path, ...] = ()

    def load(self) -> Any:  # noqa: ANN401 - a module without types
        """Return the module, compiled now if no process has done so before.

        Raises:
            CompileError: It does not compile.
            LinkError: It does not link.
            LibraryLoadError: It cannot be loaded.
            CacheDirError: The cache's directory cannot be used.
        """
        import torch  # noqa: F401, PLC0415 - its libraries must be in the process before

        return _load(self.name, self.file(default_cache()))

    def file(self, cache: DiskCache) -> Path:
        """Return the module's file, compiled now if the cache has none.

        Raises:
            CompileError: It does not compile.
            LinkError: It does not link.
            CacheDirError: The cache's directory cannot be used.
        """
        compiler = find_compiler(cache)
        key = self._key(compiler)
        found = cache.get(key, "so")
        if found is not None:
            return found
        with cache.locked([key]):
            return cache.get(key, "so") or self._build(cache, compiler, key)

    def _build(self, cache: DiskCache, compiler: Compiler, key: str) -> Path:
        includes = [f"-I{path}" for path in (*native_include_dirs(), include_dirs()[0])]
        with cache.scratch() as scratch:
            unit, library = str(scratch / "unit.o"), scratch / f"{self.name}.so"
            # Headers of PyTorch's, which are not ours to keep free of warnings.
            flags = [*native_flags(compiler), "-w", *includes]
            try:
                run([*compiler.command, *flags, "-c", str(self.source), "-o", unit])
            except CompilerRunError as error:
                raise CompileError(
                    unit=f"a part of wrapper_ir ({self.source.name})",
                    command=error.command,
                    excerpt="",
                    output=error.output,
                    hint="is this version of PyTorch, or of the compiler, one that we know?",
                ) from error
            try:
                run([*compiler.command, unit, "-o", str(library), *link_flags(), "-ldl", "-s"])
            except CompilerRunError as error:
                raise LinkError(command=error.command, output=error.output) from error
            return cache.put(key, "so", library)

    def _key(self, compiler: Compiler) -> str:
        parts = [str(_FORMAT), self.name, environment(), compiler.version]
        for file in (self.source, *_files(self.texts)):
            parts += (file.name, file.read_text("utf-8"))
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _files(paths: Iterable[Path]) -> list[Path]:
    """The files themselves, and those in folders."""
    found: list[Path] = []
    for path in paths:
        found += path.rglob("*.h") if path.is_dir() else [path]
    return sorted(found)


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
