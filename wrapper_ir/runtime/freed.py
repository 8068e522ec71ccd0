"""Freed memory that the C library keeps, instead of giving it back to the system.

Library ops allocate what they return (a convolution has no ``out``), results are new in each call,
and no plan decides where they lie. The C library takes large blocks from the system page by page
and gives them back when they are freed, so every call pays for touching them anew. Told not to, it
finds them among what was freed before.

This holds for the whole process and all that is allocated in it, so only the user asks for it.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from typing import TYPE_CHECKING, Final, NamedTuple

from wrapper_ir.runtime.kept import register

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["keep_freed_memory"]

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
