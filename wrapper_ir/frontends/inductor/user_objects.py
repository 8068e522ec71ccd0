"""The user's streams, events and memory pools, which Dynamo numbers while it traces.

A number stands for the object of the call, not for the one that was there at the trace. One kind is
recognised: the stream that is current when the program is called, which is the caller's.
"""

from __future__ import annotations

from typing import Any

import torch

from wrapper_ir.frontends.inductor import compat
from wrapper_ir.runtime import user_object

user_object.are_found_by(lambda number: compat.user_objects.get_external_object_by_index(number))


def is_current_stream(number: int) -> bool:
    """Return whether a number stands for the current stream, whichever that is."""
    makers = compat.user_objects.index_to_bytecode_constructor
    if number >= len(makers):  # it is from another trace
        return number == compat.current_stream()
    # The values that the object's constructor function closes over tell its source.
    captured = [cell.cell_contents for cell in getattr(makers[number], "__closure__", None) or ()]
    return any(
        isinstance(part, compat.CurrentStreamSource)
        or getattr(part, "__qualname__", "").startswith("get_current_stream.")
        for part in captured
    )


def device_of_stream(number: int) -> torch.device | None:
    """Return the device of the stream that was there at the trace, or None if it is gone."""
    references = compat.user_objects.index_to_external_object_weakref
    stream = references[number]() if number < len(references) else None
    device = getattr(stream, "device", None)
    return device if isinstance(device, torch.device) else None


def are_in_trace() -> bool:
    """Return whether Dynamo's trace has objects other than the current stream.

    Where there is an accelerator, its current stream is in the table of every trace.
    """
    count = len(compat.user_objects.index_to_bytecode_constructor)
    return not all(map(is_current_stream, range(count)))


def note(context: Any) -> None:
    """Note the objects of this call for its backward pass, before which torch puts them back.

    Torch's own function looks at the table that was there when torch was imported; Dynamo makes a
    new one in each call.
    """
    references = compat.user_objects.index_to_external_object_weakref
    context._external_objects = {
        number: value
        for number, reference in enumerate(references)
        if (value := reference()) is not None
    }
