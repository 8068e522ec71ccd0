"""Branches of captured graphs: streams and events that are there while a call is captured.

Events order streams within a capture, and become the edges of the graph. In a call that is not
captured all work is on the caller's stream, which has its order anyway.
"""

from __future__ import annotations

import ctypes
import weakref
from threading import Lock
from typing import Final

import torch

__all__ = ["BranchStream", "branch_event"]

_NON_BLOCKING: Final = 1
"""``CU_STREAM_NON_BLOCKING``: what others put on the old default stream is no business of it."""


_RELAXED: Final = 2
"""``CU_STREAM_CAPTURE_MODE_RELAXED``: making a stream is no part of what a thread captures."""


class BranchStream:
    """A stream for a branch of captured calls.

    It is none of those that PyTorch hands out to everybody: what others put on such a stream while
    a call is captured would become a part of the graph.

    Args:
        device: The GPU that it is of.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._handle = 0
        self._lock = Lock()

    def get(self) -> torch.cuda.Stream:
        """The stream in a call that is captured, else the current one."""
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
            end.atexit = False  # the process takes it along


def _made(driver: ctypes.CDLL, gpu: int) -> int:
    """The handle of a new stream, made whether or not the thread is capturing."""
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
    """Stands for an event where all work is on one stream."""

    def record(self, stream: torch.Stream) -> None:
        """There is nothing to do."""

    def wait(self, stream: torch.Stream) -> None:
        """There is nothing to do."""


_NO_EVENT: Final = _NoEvent()


def branch_event(device: torch.device) -> torch.Event | _NoEvent:
    """An event between branches in a call that is captured; else something that does nothing."""
    if torch.cuda.is_current_stream_capturing():
        return torch.Event(device)
    return _NO_EVENT
