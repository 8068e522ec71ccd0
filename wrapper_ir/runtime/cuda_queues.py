"""Ops by which C++ programs look up streams and events of the user's on GPUs.

Ops cannot take objects, so they return handles of the CUDA driver, as numbers. Only processes that
have imported this package have the ops.
"""

from __future__ import annotations

from typing import Any, Final

import torch

from wrapper_ir.runtime._private_cuda import current_stream
from wrapper_ir.runtime.devices import user_object
from wrapper_ir.runtime.errors import UserObjectError
from wrapper_ir.runtime.served import served

_MISSING: Final = -1


def _found(number: int) -> Any:  # noqa: ANN401 - streams and events have several classes
    try:
        return user_object(number)
    except UserObjectError:
        return None


@served("user_stream(int device, int number) -> int")
def user_stream(device: int, number: int) -> int:
    """Return the handle of a user's stream, -1 if there is none; 0 is the default stream."""
    stream = _found(number)
    if stream is None:
        return _MISSING
    with stream:
        return current_stream(device)


@served("user_event(int device, int number) -> int")
def user_event(device: int, number: int) -> int:
    """Return the handle of a user's event, -1 if there is none.

    PyTorch makes an event when it is first recorded; so one that never was is recorded here.
    """
    event = _found(number)
    if event is None:
        return _MISSING
    if not _handle(event):
        event.record(torch.cuda.current_stream(device))
    return _handle(event)


def _handle(event: Any) -> int:  # noqa: ANN401
    return int(event.cuda_event if isinstance(event, torch.cuda.Event) else event.event_id)
