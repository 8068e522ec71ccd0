"""Streams, events and memory pools of the user's, which Dynamo keeps by number while it traces.

A number stands for the object that a call brings, not for the one that was there at the trace. One
kind is looked through: the stream that is current where the program is called is the caller's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from wrapper_ir.frontends.inductor.compat import CurrentStreamSource, user_objects
from wrapper_ir.frontends.inductor.differences import current_stream
from wrapper_ir.runtime import user_object

if TYPE_CHECKING:
    from collections.abc import Iterator


user_object.are_found_by(lambda number: user_objects.get_external_object_by_index(number))


def is_current_stream(number: int) -> bool:
    """Return whether a number stands for the current stream, whichever that is."""
    makers = user_objects.index_to_bytecode_constructor
    if number >= len(makers):  # of another trace
        return number == current_stream()
    return any(isinstance(part, CurrentStreamSource) for part in _captured(makers[number])) or any(
        getattr(part, "__qualname__", "").startswith("get_current_stream.")
        for part in _captured(makers[number])
    )


def _captured(function: Any) -> Iterator[Any]:
    """Yield the objects that a function closes over, which tell where an object comes from."""
    for cell in getattr(function, "__closure__", None) or ():
        yield cell.cell_contents


def device_of_stream(number: int) -> torch.device | None:
    """The device of the stream that was there at the trace, None where it is gone."""
    kept = user_objects.index_to_external_object_weakref
    found = kept[number]() if number < len(kept) else None
    device = getattr(found, "device", None)
    return device if isinstance(device, torch.device) else None
