"""Devices as C++ programs spell them, and those that a program runs on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from wrapper_ir.devices import number_of
from wrapper_ir.lines.effects import effects
from wrapper_ir.lines.layout import Device
from wrapper_ir.lines.walk import walk

if TYPE_CHECKING:
    from wrapper_ir.devices import CppSide
    from wrapper_ir.lines.program import Program


def accelerators_of(program: Program) -> tuple[Device, ...]:
    """The accelerators that a program's lines use, in order, all with their numbers.

    An input that nobody looks at may be anywhere.
    """
    away = {
        name: each.device
        for name, each in program.buffers.items()
        if each.device.kind.is_accelerator and each.device.kind.cpp is not None
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
    pairs = {(each.type, device_index(each)) for each in used}
    return tuple(Device(*pair) for pair in sorted(pairs))


def side_of(device: Device) -> CppSide:
    """Return what C++ programs call for a device that they run on."""
    side = device.kind.cpp
    assert side is not None, "lines on other devices were refused"
    return side


def device_index(device: Device) -> int:
    """The number of a device; that of the first one where a program does not say which."""
    return 0 if device.index is None else device.index


def device_parts(device: Device) -> tuple[str, str]:
    """Type and index of a device; any index where it has none, but for accelerators: the first."""
    kind = device.kind
    has_number = kind.is_accelerator or (kind.has_index and device.index is not None)
    return device_type(device), str(device_index(device) if has_number else -1)


ANYWHERE: Final = ("wir::device::any", "-1")
"""Type and index in the specification of a tensor that may be on any device."""


def device_type(device: Device) -> str:
    """The number of a type of devices, by its name where generated files know one."""
    side = device.kind.cpp
    if side is not None:
        return f"wir::device::{side.name}"
    return str(number_of(device.type))
