"""Native functions that serve PyTorch's CPU allocator from memory of ours: compiled once.

What they do is told in ``wrapper_ir/native/src/heap.cpp``.
"""

from __future__ import annotations

import contextlib
import ctypes
import sys
import threading
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from wrapper_ir.errors import WrapperIRError
from wrapper_ir.toolchain.cache import default_cache
from wrapper_ir.toolchain.extension import Extension

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["HeapFunctions", "heap_functions", "unserved"]

_NATIVE: Final = Path(__file__).resolve().parents[1] / "native"

_LIBRARY: Final = Extension(
    "wir_heaps",
    _NATIVE / "python" / "heap_library.cpp",
    (
        _NATIVE / "src" / "heap.cpp",
        _NATIVE / "src" / "heap.h",
        _NATIVE / "include" / "wir" / "heap.h",
        _NATIVE / "include" / "wir" / "huge_pages.h",
    ),
)


class HeapFunctions(NamedTuple):
    """The functions. A heap is its address; of threads, the one that calls is meant."""

    make: Callable[[], int]
    drop: Callable[[int], None]
    """What is in use goes when it is freed."""
    bytes: Callable[[int], int]
    """How many it holds that nobody uses."""
    begin: Callable[[int], int | None]
    """Begins a call and has the thread served; returns what it was served from before."""
    end: Callable[[int, int | None], None]
    """Ends it; takes what ``begin`` returned."""
    exchange: Callable[[int | None], int | None]
    """Has the thread served from another heap or none; returns the former."""


_guard: Final = threading.Lock()
_found: list[HeapFunctions | None] = []


def heap_functions() -> HeapFunctions | None:
    """Return the functions, compiled now (a second or two) if no process has done so before.

    ``None`` where they cannot be had, which is told once in a warning: programs then run without.
    """
    with _guard:
        if not _found:
            _found.append(_load() if sys.platform.startswith("linux") else None)
        return _found[0]


@contextlib.contextmanager
def unserved() -> Iterator[None]:
    """For what is made in the middle of a call and stays: it comes from where it always does."""
    functions = _found[0] if _found else None
    if functions is None:
        yield
        return
    former = functions.exchange(None)
    try:
        yield
    finally:
        functions.exchange(former)


def _load() -> HeapFunctions | None:
    try:
        # Calls of a few dozen nanoseconds: giving the GIL away would cost more.
        library = ctypes.PyDLL(str(_LIBRARY.file(default_cache())))
    except (WrapperIRError, OSError) as error:
        message = f"memory that library ops allocate is not kept between calls: {error}"
        warnings.warn(message, RuntimeWarning, stacklevel=4)
        return None
    heap, size = ctypes.c_void_p, ctypes.c_size_t
    signatures = {
        "make": (heap,),
        "drop": (None, heap),
        "bytes": (size, heap),
        "begin": (heap, heap),
        "end": (None, heap, heap),
        "exchange": (heap, heap),
    }
    made = []
    for name in HeapFunctions._fields:
        function = getattr(library, f"wir_heap_{name}")
        function.restype, *function.argtypes = signatures[name]
        made.append(function)
    return HeapFunctions(*made)
