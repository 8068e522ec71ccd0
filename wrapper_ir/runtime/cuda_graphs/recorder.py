"""Capture of work on a GPU, order among streams, and branches of captured graphs.

Branches are streams and events that exist only while a call is captured. Events order streams
within a capture, and become the edges of the graph. In a call that is not captured, all work is on
the caller's stream, which orders it.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import threading
import weakref
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, Protocol

import torch

from wrapper_ir.runtime._private_cuda import clear_workspaces, current_stream, mend_capture
from wrapper_ir.runtime.devices import current_device

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

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
        """Make later work wait for the work since the last call, which uses this memory, too."""

    def wait(self) -> None:
        """Wait until all replayed work is done."""


class CudaRecorder:
    """Captures CUDA graphs of one GPU that share one pool of memory."""

    def __init__(self, device: torch.device) -> None:
        self.device: torch.device = current_device(device)
        self._index: int = self.device.index
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
        with _one_at_a_time, torch.cuda.device(self.device), contextlib.ExitStack() as after:
            if gc.isenabled():  # a collection could free memory that must stay during a capture
                gc.disable()
                after.callback(gc.enable)
            clear_workspaces()  # so that cuBLAS allocates them from the graph's pool
            after.callback(clear_workspaces)
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


_NON_BLOCKING: Final = 1
"""``CU_STREAM_NON_BLOCKING``: no implicit synchronization with the legacy default stream."""


_RELAXED: Final = 2
"""``CU_STREAM_CAPTURE_MODE_RELAXED``: allows creating a stream during a capture."""


class BranchStream:
    """A stream of a GPU for a branch of captured calls.

    It does not come from PyTorch's shared pool: work that others put on such a stream during a
    capture would become part of the graph.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = current_device(device)
        self._handle = 0
        self._lock = Lock()

    def get(self) -> torch.cuda.Stream:
        """Return the stream in a call that is captured, else the current one."""
        if not self._handle:
            self._make()
        if not torch.cuda.is_current_stream_capturing():
            return torch.cuda.current_stream(self._device)
        return torch.cuda.ExternalStream(self._handle, self._device)  # type: ignore[no-untyped-call]

    def _make(self) -> None:
        with self._lock:
            if self._handle:
                return
            driver = ctypes.CDLL("libcuda.so.1")
            self._handle = _made(driver, self._device.index)
            end = weakref.finalize(self, driver.cuStreamDestroy_v2, ctypes.c_void_p(self._handle))
            end.atexit = False  # it goes with the process


def _made(driver: ctypes.CDLL, gpu: int) -> int:
    """Create a stream, whether or not the thread is capturing; return its handle."""
    device, context, made = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p()
    mode, popped = ctypes.c_int(_RELAXED), ctypes.c_void_p()
    result = driver.cuDeviceGet(ctypes.byref(device), gpu)
    result = result or driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)
    result = result or driver.cuCtxPushCurrent_v2(context)
    if not result:
        driver.cuThreadExchangeStreamCaptureMode(ctypes.byref(mode))
        result = driver.cuStreamCreate(ctypes.byref(made), _NON_BLOCKING)
        driver.cuThreadExchangeStreamCaptureMode(ctypes.byref(mode))
        driver.cuCtxPopCurrent_v2(ctypes.byref(popped))
        driver.cuDevicePrimaryCtxRelease_v2(device)  # PyTorch keeps it
    if result or not made.value:
        raise RuntimeError(f"a stream cannot be made: error {result} of the CUDA driver")
    return made.value


class _NoEvent:
    """The stand-in for an event in calls that use one stream."""

    def record(self, stream: torch.Stream) -> None:
        """Do nothing."""

    def wait(self, stream: torch.Stream) -> None:
        """Do nothing."""


_NO_EVENT: Final = _NoEvent()


def branch_event(device: torch.device) -> torch.Event | _NoEvent:
    """Return an event in a call that is captured, else a stand-in that does nothing."""
    if torch.cuda.is_current_stream_capturing():
        return torch.Event(device)
    return _NO_EVENT
