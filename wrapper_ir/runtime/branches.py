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
        if not self._handle:  # calls that warm up make it, and nothing is made in a capture
            with self._lock:
                self._handle = self._handle or self._make()
        if not torch.cuda.is_current_stream_capturing():
            return torch.cuda.current_stream(self._device)
        return torch.cuda.ExternalStream(self._handle, self._device)  # type: ignore[no-untyped-call]

    def _make(self) -> int:
        driver = ctypes.CDLL("libcuda.so.1")
        made = ctypes.c_void_p()
        with torch.cuda.device(self._device):
            torch.cuda.current_stream().query()  # has the driver know of the thread and the GPU
            result = driver.cuStreamCreate(ctypes.byref(made), _NON_BLOCKING)
        if result or not made.value:
            raise RuntimeError(f"a stream cannot be made: error {result} of the CUDA driver")
        end = weakref.finalize(self, driver.cuStreamDestroy_v2, ctypes.c_void_p(made.value))
        end.atexit = False  # the process takes it along
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
