"""The extension module that makes functions of programs' libraries: compiled once, then found.

Its source is ``wrapper_ir/native/python``. What it is compiled to depends on PyTorch, Python and
the compiler, on no program, so it is kept in the toolchain's disk cache.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.machinery
import importlib.util
import sysconfig
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from wrapper_ir.errors import WrapperIRError
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
from wrapper_ir.toolchain.native import native_flags, native_include_dirs, runtime_objects

if TYPE_CHECKING:
    from types import ModuleType

__all__ = ["extension_module", "prepare_module"]

_NATIVE: Final = Path(__file__).resolve().parents[2] / "native"

_NAME: Final = "wir_python"

#: Raise it when modules that were made otherwise must not be found any more.
_FORMAT: Final = 1

_guard = threading.Lock()
_loaded: ModuleType | None = None


def extension_module() -> Any:  # noqa: ANN401 - a module without types
    """Return the module, compiled now (about 12 s) if no process has done so before.

    Raises:
        CompileError: It does not compile.
        LinkError: It does not link.
        LibraryLoadError: It cannot be loaded.
        CacheDirError: The cache's directory cannot be used.
    """
    global _loaded
    with _guard:
        if _loaded is None:
            _loaded = _load(_file(default_cache()))
        return _loaded


def prepare_module() -> None:
    """Begin to compile the module and the runtime part, in a thread, unless they are there.

    What goes wrong is left to whoever needs the module to find.
    """
    if _loaded is None:
        threading.Thread(target=_try, name="wrapper_ir module", daemon=True).start()


def _try() -> None:
    with contextlib.suppress(WrapperIRError):
        cache = default_cache()
        _file(cache)
        runtime_objects(cache, find_compiler(cache), jobs=1)


def _file(cache: DiskCache) -> Path:
    compiler = find_compiler(cache)
    key = _key(compiler)
    found = cache.get(key, "so")
    if found is not None:
        return found
    with cache.locked([key]):
        return cache.get(key, "so") or _build(cache, compiler, key)


def _build(cache: DiskCache, compiler: Compiler, key: str) -> Path:
    source = _NATIVE / "python" / "python.cpp"
    includes = [f"-I{path}" for path in (*native_include_dirs(), *include_dirs()[:1])]
    with cache.scratch() as scratch:
        unit, library = str(scratch / "python.o"), scratch / f"{_NAME}.so"
        # Headers of PyTorch's, which are not ours to keep free of warnings.
        flags = [*native_flags(compiler), "-w", *includes]
        try:
            run([*compiler.command, *flags, "-c", str(source), "-o", unit])
        except CompilerRunError as error:
            raise CompileError(
                unit="the part that Python loads (python.cpp)",
                command=error.command,
                excerpt="",
                output=error.output,
                hint="is this version of PyTorch, or of the compiler, one that wrapper_ir knows?",
            ) from error
        try:
            run([*compiler.command, unit, "-o", str(library), *link_flags(), "-s"])
        except CompilerRunError as error:
            raise LinkError(command=error.command, output=error.output) from error
        return cache.put(key, "so", library)


def _load(file: Path) -> ModuleType:
    import torch  # noqa: F401, PLC0415 - its libraries must be in the process before

    loader = importlib.machinery.ExtensionFileLoader(_NAME, str(file))
    spec = importlib.util.spec_from_loader(_NAME, loader)
    try:
        if spec is None:
            raise ImportError("no module specification")
        module = importlib.util.module_from_spec(spec)
        loader.exec_module(module)
    except ImportError as error:
        raise LibraryLoadError(library=str(file), reason=str(error)) from error
    return module


def _key(compiler: Compiler) -> str:
    import torch  # noqa: PLC0415 - as above

    files = sorted([*(_NATIVE / "include").rglob("*.h"), *(_NATIVE / "python").iterdir()])
    parts = [
        str(_FORMAT),
        str(sysconfig.get_config_var("SOABI")),
        torch.__version__,
        str(torch.version.git_version),
        str(torch.compiled_with_cxx11_abi()),
        compiler.version,
        *(text for file in files for text in (file.name, file.read_text("utf-8"))),
    ]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()
