"""Capture of work on a GPU, and order among streams."""

from __future__ import annotations

import contextlib
import gc
import threading
from typing import TYPE_CHECKING, Any, Final, Protocol

import torch

from wrapper_ir.runtime._private_cuda import clear_workspaces, current_stream, mend_capture

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

_one_at_a_time: Final = threading.RLock()
"""PyTorch supports one capture at a time in a process."""


class Recording(Protocol):
    """Captured work."""

    def replay(self) -> None:
        """Run it again on the current stream."""


class Recorder(Protocol):
    """The interface of recorders, which capture calls."""

    device: torch.device

    def record(self, run: Callable[[], Sequence[Any]]) -> tuple[Recording, Sequence[Any]]:
        """Capture the device work of ``run`` without executing it; return its results too."""

    def is_recording(self) -> bool:
        """Return whether the current work is being captured by someone."""

    def order(self, memory: Iterable[torch.Tensor]) -> None:
        """Make later work wait for the work since the last call of this method.

        Args:
            memory: The memory that both use.
        """

    def wait(self) -> None:
        """Wait until all replayed work is done."""


class CudaRecorder:
    """Captures CUDA graphs that share one pool of memory.

    Args:
        device: The GPU.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._index = device.index or 0
        self._pool: Any = None
        self._capturing: torch.cuda.Stream | None = None
        self._handle: int | None = None
        self._stream: torch.cuda.Stream | None = None

    def record(self, run: Callable[[], Sequence[Any]]) -> tuple[Recording, Sequence[Any]]:
        """Capture the device work of ``run`` without executing it; return its results too."""
        if self._pool is None:
            self._pool = torch.cuda.graph_pool_handle()
            self._capturing = torch.cuda.Stream(self.device)  # type: ignore[no-untyped-call]
        graph = torch.cuda.CUDAGraph()
        how = {"pool": self._pool, "stream": self._capturing, "capture_error_mode": "thread_local"}
        with _one_at_a_time, torch.cuda.device(self.device), _no_collection(), _own_workspaces():
            before = torch.cuda.current_stream()
            try:
                with torch.cuda.graph(graph, **how):
                    results = run()
            except BaseException:
                torch.cuda.set_stream(before)  # torch does not restore it after a failed capture
                mend_capture(self._index, self._pool)
                raise
        return graph, results

    def is_recording(self) -> bool:
        """Return whether the current stream is being captured."""
        return torch.cuda.is_current_stream_capturing()

    def order(self, memory: Iterable[torch.Tensor]) -> None:
        """Make the current stream wait for that of the last call, if it is another one."""
        if current_stream(self._index) == self._handle:
            return
        now = torch.cuda.current_stream(self.device)
        if self._stream is not None:
            now.wait_stream(self._stream)
        for tensor in memory:
            tensor.record_stream(now)
        self._stream, self._handle = now, now.cuda_stream

    def wait(self) -> None:
        """Wait until all replayed work is done."""
        if self._stream is not None:
            self._stream.synchronize()


@contextlib.contextmanager
def _no_collection() -> Iterator[None]:
    """Disable garbage collection, which could free memory that must stay during a capture."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextlib.contextmanager
def _own_workspaces() -> Iterator[None]:
    """Make cuBLAS allocate its workspaces from the graph's pool, and drop them afterwards."""
    clear_workspaces()
    try:
        yield
    finally:
        clear_workspaces()
