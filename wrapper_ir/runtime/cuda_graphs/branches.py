"""Branches of captured graphs: streams and events that exist only while a call is captured.

Events order streams within a capture, and become the edges of the graph. In a call that is not
captured, all work is on the caller's stream, which orders it.
"""

from __future__ import annotations

import ctypes
import weakref
from threading import Lock
from typing import Final

import torch

_NON_BLOCKING: Final = 1
"""``CU_STREAM_NON_BLOCKING``: no implicit synchronization with the legacy default stream."""


_RELAXED: Final = 2
"""``CU_STREAM_CAPTURE_MODE_RELAXED``: allows creating a stream during a capture."""


class BranchStream:
    """A stream for a branch of captured calls.

    It does not come from PyTorch's shared pool: work that others put on such a stream during a
    capture would become part of the graph.

    Args:
        device: Its GPU.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
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
            self._handle = _made(driver, self._device.index or 0)
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
