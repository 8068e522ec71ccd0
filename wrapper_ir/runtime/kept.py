"""Memory kept between calls: arenas, sets of buffers, and what library ops and results allocate.

Fresh memory is expensive on a CPU: the first touch of each 4 KiB page traps into the kernel. Memory
that is kept has been touched by earlier calls.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import sys
import threading
import warnings
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, Protocol, TypeVar

import torch
from torch import Tensor

from wrapper_ir.errors import WrapperIRError
from wrapper_ir.runtime._private import empty_strided_cpu
from wrapper_ir.runtime.living import register
from wrapper_ir.runtime.views import reinterpret_as
from wrapper_ir.toolchain.cache import default_cache
from wrapper_ir.toolchain.native import Extension

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


class _Kept(Protocol):
    home: list[Any] | None


T = TypeVar("T", bound=_Kept)

_HUGE_PAGE: Final = 2 * 1024 * 1024

#: The smallest arena to advise for huge pages. In smaller ones, most memory lies at the ends, which
#: fill no whole huge page.
_LARGE: Final = 2 * _HUGE_PAGE

_MADV_HUGEPAGE: Final = 14


class Arena(tuple[Tensor, ...]):
    """An arena that one call owns, as a tuple of views, which are the same in every call."""

    memory: Tensor
    """Its bytes."""
    home: list[Arena] | None
    """The list that it returns to after the call."""
    _typed: dict[torch.dtype, Tensor]

    @classmethod
    def make(
        cls,
        nbytes: int,
        views: Sequence[tuple[torch.dtype, Sequence[int], Sequence[int], int]] = (),
        device: torch.device | None = None,
    ) -> Arena:
        """Allocate an arena, on the CPU by default, with views of dtype, size, stride, byte offset.

        Its tensors are never inference tensors: this call may be in that mode and the next not.
        """
        with torch.inference_mode(mode=False), unserved():
            if device is not None:
                memory = torch.empty(nbytes, dtype=torch.uint8, device=device)
            else:
                memory = empty_strided_cpu((nbytes,), (1,), torch.uint8)
                if nbytes >= _LARGE:
                    advise_huge_pages(memory)
            arena = cls(reinterpret_as(memory, *view) for view in views)
        arena.memory, arena.home, arena._typed = memory, None, {torch.uint8: memory}
        return arena

    def of(self, dtype: torch.dtype) -> Tensor:
        """Return a tensor at the arena's start from which to make views of ``dtype``."""
        found = self._typed.get(dtype)
        if found is None:
            with torch.inference_mode(mode=False):
                found = self._typed[dtype] = reinterpret_as(self.memory, dtype, (0,), (1,), 0)
        return found


class Keeper(Generic[T]):
    """An owner of arenas or heaps, each of which knows the list that it came from."""

    def give(self, item: T) -> None:
        """Take an arena or heap back, unless kept memory was released since it was taken."""
        home, item.home = item.home, None
        if home is not None:
            home.append(item)  # after a release nobody uses this list any more


class KeptArena(Keeper[Arena]):
    """CPU memory for buffers that never leave a call, kept for the next call.

    Args:
        nbytes: Its size; ``None`` if it varies by call.
        *views: For a fixed size, the dtype, size, stride and byte offset of each buffer.

    Each call takes an arena and gives it back, so concurrent or nested calls never share memory. As
    many are kept as were in use at once. A call that fails gives nothing back.
    """

    def __init__(
        self,
        nbytes: int | None = None,
        *views: tuple[torch.dtype, Sequence[int], Sequence[int], int],
    ) -> None:
        self._nbytes = nbytes
        self._views = views
        self._free: list[Arena] = []
        register(self)

    def take(self, nbytes: int = 0) -> Arena:
        """Return an arena with undefined contents; ``nbytes`` is its least size if it varies."""
        free = self._free
        try:
            arena = free.pop()  # atomic: no two threads get the same one
        except IndexError:
            arena = Arena.make(nbytes if self._nbytes is None else self._nbytes, self._views)
        else:
            if self._nbytes is None and arena.memory.numel() < nbytes:
                del arena  # before the larger one is allocated
                arena = Arena.make(nbytes)
        arena.home = free
        return arena

    def release(self) -> int:
        """Free idle arenas and return their bytes; those in use are freed when their calls end."""
        free, self._free = self._free, []
        return sum(arena.memory.numel() for arena in free)


@functools.cache
def _of_c_library(name: str, *argtypes: type[Any]) -> Callable[..., int] | None:
    """Return a function of the C library; ``None`` outside Linux, and if it has none."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        found = ctypes.CDLL(None)[name]
    except (OSError, AttributeError):
        return None
    found.argtypes, found.restype = argtypes, ctypes.c_int
    call: Callable[..., int] = found
    return call


def advise_huge_pages(memory: Tensor) -> None:
    """Advise the kernel to use huge pages for a tensor's memory, as far as whole ones fit in."""
    madvise = _of_c_library("madvise", ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    if madvise is None:
        return
    start = -(-memory.data_ptr() // _HUGE_PAGE) * _HUGE_PAGE
    end = (memory.data_ptr() + memory.nbytes) // _HUGE_PAGE * _HUGE_PAGE
    if start < end:
        madvise(start, end - start, _MADV_HUGEPAGE)


#: The most sets of buffers kept: the number of concurrent calls that need not allocate.
_MOST_KEPT: Final = 4


class Spare(tuple[Tensor, ...]):
    """A set of buffers that one call owns."""

    home: list[Spare] | None  #: the list that it returns to after the call


class Scratch:
    """Sets of buffers that never leave a call, one set for each running call.

    Args:
        *layouts: Size, stride and dtype of each buffer of a set.

    Each call takes a set and gives it back, so concurrent or nested calls never share a buffer. A
    call that fails gives nothing back.
    """

    def __init__(self, *layouts: tuple[Sequence[int], Sequence[int], torch.dtype]) -> None:
        self._layouts = layouts
        self._sets: list[Spare] = []
        register(self)

    def take(self) -> Spare:
        """Return a set of buffers with undefined contents for one call."""
        sets = self._sets
        try:
            spare = sets.pop()  # atomic: no two threads get the same one
        except IndexError:
            # No inference tensors: this call may be in that mode and the next one not.
            with torch.inference_mode(mode=False):
                spare = Spare(empty_strided_cpu(*layout) for layout in self._layouts)
        spare.home = sets
        return spare

    def give(self, spare: Spare) -> None:
        """Take a set back, unless kept memory was released since it was taken."""
        home, spare.home = spare.home, None
        if home is not None and len(home) < _MOST_KEPT:
            home.append(spare)  # after a release nobody uses this list any more

    def release(self) -> int:
        """Free idle sets and return their bytes; those in use are freed when their calls end."""
        sets, self._sets = self._sets, []
        return sum(buffer.untyped_storage().nbytes() for spare in sets for buffer in spare)


#: The names that the reference describes.
__all__ = ["keep_malloc_memory"]


class _Heap:
    """One heap, which one call owns."""

    home: list[_Heap] | None = None  #: the list that it returns to after the call

    def __init__(self, functions: HeapFunctions) -> None:
        self._drop = functions.drop  # the module may be gone when __del__ runs
        self.address = functions.make()

    def __del__(self) -> None:
        self._drop(self.address)


class KeptHeap(Keeper[_Heap]):
    """Kept memory that serves PyTorch's large allocations in calls of a program.

    Some ops, such as convolutions, allocate their results, and results of the program are new in
    each call. Memory that one call frees serves the next. A tensor that leaves a call belongs to
    its holder, and its memory returns when the tensor dies. At most the peak of a call is kept.

    Each call owns a heap, so as many are kept as calls have run at once.
    """

    def __init__(self) -> None:
        self._functions = heap_functions()
        self._free: list[_Heap] = []
        register(self)

    def serves(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap ``call`` so that a heap serves its allocations."""
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
                self.give(heap)

        return run

    def release(self) -> int:
        """Free idle heaps and return their bytes; those in use are freed when their calls end."""
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


# Native functions that serve PyTorch's CPU allocator from our memory, compiled once. They are
# documented in ``wrapper_ir/native/src/heap.cpp``.


_LIBRARY: Final = Extension(
    "wir_heaps",
    "python/heap_library.cpp",
    ("src/heap.cpp", "src/heap.h", "include/wir/heap.h", "include/wir/huge_pages.h"),
)


class HeapFunctions(NamedTuple):
    """The native functions. A heap is given by its address; they act on the calling thread."""

    make: Callable[[], int]
    drop: Callable[[int], None]  #: drops a heap; blocks in use go when they are freed
    bytes: Callable[[int], int]  #: returns the bytes that it holds unused
    begin: Callable[[int], int | None]  #: begins a call that a heap serves; returns the former one
    end: Callable[[int, int | None], None]  #: ends the call; takes the result of ``begin``
    exchange: Callable[[int | None], int | None]  #: switches to another heap or none, likewise


_guard: Final = threading.Lock()
_found: list[HeapFunctions | None] = []


def heap_functions() -> HeapFunctions | None:
    """Return the functions, compiling them (a second or two) unless they are on disk.

    If that fails, the result is ``None``, with one warning; programs then run without heaps.
    """
    with _guard:
        if not _found:
            _found.append(_load() if sys.platform.startswith("linux") else None)
        return _found[0]


@contextlib.contextmanager
def unserved() -> Iterator[None]:
    """Bypass heaps in the block, for memory that is allocated in a call but outlives it."""
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
        # These calls take a few dozen nanoseconds; releasing the GIL would cost more.
        library = ctypes.PyDLL(str(_LIBRARY.file(default_cache())))
    except (WrapperIRError, OSError) as error:
        message = f"memory that library ops allocate is not kept between calls: {error}"
        warnings.warn(message, RuntimeWarning, stacklevel=4)
        return None
    heap, size = ctypes.c_void_p, ctypes.c_size_t
    types = ((heap,), (None, heap), (size, heap), (heap, heap), (None, heap, heap), (heap, heap))
    made = []
    for name, signature in zip(HeapFunctions._fields, types, strict=True):
        function: Any = library[f"wir_heap_{name}"]
        function.restype, *function.argtypes = signature
        made.append(function)
    return HeapFunctions(*made)


# Freed memory that the C library keeps instead of returning it to the system.
#
# Library ops allocate their results (a convolution has no ``out``), results are new in each call,
# and no plan places them. The C library maps large blocks from the system and unmaps them when they
# are freed, so every call pays for page faults. If told not to, it reuses freed blocks.
#
# The setting affects the whole process, so only the user can enable it.


# Parameters of glibc's mallopt, and their defaults.
_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3
_MMAP_MAX: Final = -4
_DEFAULT_THRESHOLD: Final = 128 * 1024
_DEFAULT_MMAP_MAX: Final = 65536

#: As a trim threshold: never return memory to the system.
_NEVER: Final = -1


class _Freed:
    """The hook that returns free memory to the system when kept memory is released."""

    def release(self) -> int:
        """Return free memory to the system; the C library does not say how much, so return 0."""
        trim = _of_c_library("malloc_trim", ctypes.c_size_t)
        if trim is not None:
            trim(0)
        return 0


_freed: Final = _Freed()


def keep_malloc_memory(*, keep: bool = True) -> bool:
    """Make the C library keep freed memory for later allocations, in the whole process.

    This pays off if library ops or results are large: convolutions, a head over a large vocabulary.
    The process then holds its peak memory, plus fragmentation, until ``wir.release_kept_memory()``
    returns what is free. It works with glibc; other allocators loaded in its place have their own
    settings.
    Threads other than the main one gain little, because glibc always maps blocks above 64 MiB for
    them from the system.

    Args:
        keep: ``False`` undoes it: large blocks are returned to the system when they are freed.

    Returns:
        True if the C library has the setting and accepted it.
    """
    is_glibc = _of_c_library("gnu_get_libc_version") is not None
    mallopt = _of_c_library("mallopt", ctypes.c_int, ctypes.c_int)
    if not is_glibc or mallopt is None:
        return False
    threshold = _NEVER if keep else _DEFAULT_THRESHOLD
    done = mallopt(_MMAP_MAX, 0 if keep else _DEFAULT_MMAP_MAX)
    done &= mallopt(_TRIM_THRESHOLD, threshold)
    if keep:
        register(_freed)
    else:
        done &= mallopt(_MMAP_THRESHOLD, _DEFAULT_THRESHOLD)
        _freed.release()
    return bool(done)
