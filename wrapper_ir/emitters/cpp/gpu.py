"""Devices as generated files name them, and the GPUs that a program uses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from wrapper_ir.emitters.cpp.constants import DEVICE_TYPES
from wrapper_ir.lines.effects import effects
from wrapper_ir.lines.walk import walk

if TYPE_CHECKING:
    from wrapper_ir.lines.layout import Device
    from wrapper_ir.lines.program import Program


def gpus_of(program: Program) -> tuple[int, ...]:
    """Numbers of the GPUs that a program's lines use, in order.

    An input that nobody looks at may be anywhere.
    """
    away = {
        name: each.device for name, each in program.buffers.items() if each.device.type == "cuda"
    }
    if not away:
        return ()
    used = {
        away[name]
        for _, line in walk(program)
        for found in (effects(line, program),)
        for name in (*found.defines, *found.touched)
        if name in away
    }
    return tuple(sorted(set(map(device_index, used))))


def device_index(device: Device) -> int:
    """The number of a GPU; the first where a program does not say which."""
    return 0 if device.index is None else device.index


def device_parts(device: Device) -> tuple[str, str]:
    """Type and index of a device; any index where it has none, but for GPUs: the first one."""
    if device.type == "cuda":
        return device_type(device), str(device_index(device))
    index = -1 if device.type == "cpu" or device.index is None else device.index
    return device_type(device), str(index)


ANYWHERE: Final = ("wir::device::any", "-1")
"""Type and index in the specification of a tensor that may be on any device."""


def device_type(device: Device) -> str:
    """The number of a type of devices, by its name where generated files know one."""
    if device.type in ("cpu", "cuda"):
        return f"wir::device::{device.type}"
    return str(DEVICE_TYPES.get(device.type, DEVICE_TYPES["privateuseone"]))
