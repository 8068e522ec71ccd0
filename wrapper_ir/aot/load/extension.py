"""The extension module that turns libraries into functions, compiled once, then found in the cache.

Its source is ``wrapper_ir/native/python``.
"""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from wrapper_ir.toolchain.cache import default_cache
from wrapper_ir.toolchain.compiler import find_compiler
from wrapper_ir.toolchain.flags import generated_flags
from wrapper_ir.toolchain.native import GENERATED, Extension, precompiled, runtime_objects
from wrapper_ir.toolchain.processes import in_background

if TYPE_CHECKING:
    from types import ModuleType


_MODULE: Final = Extension("wir_python", "python/python.cpp")

_guard = threading.Lock()
_loaded: ModuleType | None = None


def extension_module() -> Any:  # noqa: ANN401 - a module without types
    """Return the module, compiled now (about 12 s) if no process has done so before.

    Raises:
        WrapperIRError: As for :meth:`wrapper_ir.toolchain.native.Extension.load`.
    """
    global _loaded
    with _guard:
        if _loaded is None:
            _loaded = _MODULE.load()
        return _loaded


def make_module(jobs: int | None = None) -> None:
    """Compile the module, the C++ runtime and headers of programs, unless the cache has them.

    Args:
        jobs: The number of compilers to run at once; by default one per processor.

    Raises:
        WrapperIRError: As for :meth:`wrapper_ir.toolchain.native.Extension.load`.
    """
    cache = default_cache()
    _MODULE.file(cache)
    compiler = find_compiler(cache)
    precompiled(cache)[GENERATED].get(compiler, generated_flags(compiler))
    runtime_objects(cache, compiler, jobs=jobs)


def prepare_module() -> None:
    """Start :func:`make_module` in a thread.

    Errors are dropped; the code that needs the module reports them.
    """
    if _loaded is None:
        in_background("module", partial(make_module, jobs=1))
