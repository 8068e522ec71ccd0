"""The extension module that makes functions of programs' libraries: compiled once, then found.

Its source is ``wrapper_ir/native/python``.
"""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from wrapper_ir.errors import WrapperIRError
from wrapper_ir.toolchain.cache import default_cache
from wrapper_ir.toolchain.compiler import find_compiler
from wrapper_ir.toolchain.extension import Extension
from wrapper_ir.toolchain.native import runtime_objects

if TYPE_CHECKING:
    from types import ModuleType


_NATIVE: Final = Path(__file__).resolve().parents[1] / "native"

_MODULE: Final = Extension(
    "wir_python",
    _NATIVE / "python" / "python.cpp",
    (_NATIVE / "include", _NATIVE / "python"),
)

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
            _loaded = _MODULE.load()
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
        _MODULE.file(cache)
        runtime_objects(cache, find_compiler(cache), jobs=1)
