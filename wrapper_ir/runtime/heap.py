"""Memory that library ops and results take inside a call, kept for the next call."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from wrapper_ir.runtime.heap_library import HeapFunctions, heap_functions
from wrapper_ir.runtime.kept import register

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["KeptHeap"]


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
