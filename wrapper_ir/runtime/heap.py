"""Memory that library ops and results take inside a call, kept for the next call."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import sys
import threading
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from wrapper_ir.errors import WrapperIRError
from wrapper_ir.runtime.living import register
from wrapper_ir.toolchain.cache import default_cache
from wrapper_ir.toolchain.native import Extension

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


#: What the reference describes.
__all__ = ["keep_freed_memory"]


class _Heap:
    """One heap, which one call has for itself."""

    home: list[_Heap] | None = None
    """While a call has it: where it goes back to."""

    def __init__(self, functions: HeapFunctions) -> None:
        self._drop = functions.drop  # by then the module may be no more
        self.address = functions.make()

    def __del__(self) -> None:
        self._drop(self.address)


class KeptHeap:
    """Serves what is large of what PyTorch allocates in calls of a program, from kept memory.

    A convolution allocates its result by itself, and results of the program are new in each call.
    What a call frees, the next one finds. What leaves a call belongs to whoever holds it, and comes
    back when it dies. Kept is at most what one call used at a time.

    A call has a heap for itself, so as many are kept as calls have run at once.
    """

    def __init__(self) -> None:
        self._functions = heap_functions()
        self._free: list[_Heap] = []
        register(self)

    def serves(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that does what ``call`` does, served from a heap meanwhile."""
        functions = self._functions
        if functions is None:
            return call
        begin, end = functions.begin, functions.end

        @functools.wraps(call)
        def run(*args: Any, **options: Any) -> Any:  # noqa: ANN401 - those of the program
            heap = self._take(functions)
            outer = begin(heap.address)
            try:
                return call(*args, **options)
            finally:
                end(heap.address, outer)
                self._give(heap)

        return run

    def release(self) -> int:
        """Free what nobody uses, have calls in progress free theirs when they end; return bytes."""
        free, self._free = self._free, []
        if self._functions is None:
            return 0
        return sum(self._functions.bytes(heap.address) for heap in free)

    def _take(self, functions: HeapFunctions) -> _Heap:
        free = self._free
        try:
            heap = free.pop()  # atomic: no two threads get the same one
        except IndexError:
            heap = _Heap(functions)
        heap.home = free
        return heap

    @staticmethod
    def _give(heap: _Heap) -> None:
        home, heap.home = heap.home, None
        if home is not None:
            home.append(heap)  # after a release this is a list that nobody looks at any more


# Native functions that serve PyTorch's CPU allocator from memory of ours: compiled once.
#
# What they do is told in ``wrapper_ir/native/src/heap.cpp``.


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


# Freed memory that the C library keeps, instead of giving it back to the system.
#
# Library ops allocate what they return (a convolution has no ``out``), results are new in each
# call, and no plan decides where they lie. The C library takes large blocks from the system page
# by page and gives them back when they are freed, so every call pays for touching them anew. Told
# not to, it finds them among what was freed before.
#
# This holds for the whole process and all that is allocated in it, so only the user asks for it.


# Parameters of glibc's mallopt, and what they are by default.
_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3
_MMAP_MAX: Final = -4
_DEFAULT_THRESHOLD: Final = 128 * 1024
_DEFAULT_MMAP_MAX: Final = 65536

#: As the bytes that may lie free at the end of the heap: never give any back.
_NEVER: Final = -1


class _Library(NamedTuple):
    """The used part of the C library."""

    mallopt: Callable[[int, int], int]
    malloc_trim: Callable[[int], int]


class _Freed:
    """Gives back to the system what is free, when all that is kept is released."""

    def release(self) -> int:
        """Give back what is free; how much that was the C library does not say."""
        library = _library()
        if library is not None:
            library.malloc_trim(0)
        return 0


_freed: Final = _Freed()


def keep_freed_memory(*, keep: bool = True) -> bool:
    """Have the C library keep freed memory for later allocations, in the whole process.

    Worth it where library ops or results are large: convolutions, a head over a large vocabulary.
    The process then holds the most that it ever needed at once, and what lies scattered besides,
    until ``wir.release()``, which gives back what is free then. For glibc; another allocator,
    loaded in its place, has settings of its own. Threads other than the main one gain little: glibc
    takes blocks larger than 64 MiB from the system for them in any case.

    Args:
        keep: ``False`` undoes it: large blocks are given back again when they are freed.

    Returns:
        Whether the C library has such a setting and took it.
    """
    library = _library()
    if library is None:
        return False
    threshold = _NEVER if keep else _DEFAULT_THRESHOLD
    done = library.mallopt(_MMAP_MAX, 0 if keep else _DEFAULT_MMAP_MAX)
    done &= library.mallopt(_TRIM_THRESHOLD, threshold)
    if keep:
        register(_freed)
    else:
        done &= library.mallopt(_MMAP_THRESHOLD, _DEFAULT_THRESHOLD)
        library.malloc_trim(0)
    return bool(done)


@functools.cache
def _library() -> _Library | None:
    """The functions of glibc; none under another C library."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        found = ctypes.CDLL(None)
        _ = found.gnu_get_libc_version
        mallopt, trim = found.mallopt, found.malloc_trim
    except (OSError, AttributeError):
        return None
    mallopt.argtypes, mallopt.restype = (ctypes.c_int, ctypes.c_int), ctypes.c_int
    trim.argtypes, trim.restype = (ctypes.c_size_t,), ctypes.c_int
    return _Library(mallopt, trim)
