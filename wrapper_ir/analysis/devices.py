"""The devices besides the host that a program runs on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import wrapper_ir.lines as ir

if TYPE_CHECKING:
    from collections.abc import Iterable


def only_accelerator(program: ir.Program) -> ir.Device | None:
    """Return the accelerator that a program runs on, if there is exactly one."""
    found = {program.layout(name).device for name in (*program.buffers, *program.constants)}
    used = [device for device in found if device.kind.is_accelerator]
    return used[0] if len(used) == 1 else None


def accelerators_of(program: ir.Program) -> tuple[ir.Device, ...]:
    """Return the devices besides the host that lines use and C++ supports, numbered and sorted.

    An input that no line touches may be on any device.
    """
    away = {
        name: each.device
        for name, each in program.buffers.items()
        if each.device.type != ir.CPU.type and each.device.kind.cpp is not None
    }
    if not away:
        return ()
    used = {
        away[name]
        for _, line in ir.walk(program)
        for found in (ir.effects(line, program),)
        for name in (*found.defines, *found.touched)
        if name in away
    }
    return tuple(sorted(set(map(numbered, used)), key=lambda each: (each.type, each.index or 0)))


def is_relative(device: ir.Device) -> bool:
    """Return whether a device is the one that is current when the program is loaded."""
    return device.index is None and device.kind.is_accelerator


def numbered(device: ir.Device) -> ir.Device:
    """Return a device with its number, by default that of the first one; not the current device."""
    return device if is_relative(device) else ir.Device(device.type, device.index or 0)


def declared_devices(program: ir.Program) -> frozenset[ir.Device]:
    """Return the devices of a program's buffers, streams and memory pools."""
    found = {layout.device for layout in program.buffers.values()}
    found.update(stream.device for stream in program.streams)
    return frozenset(found.union(pool.device for pool in program.mempools))


def devices_in(program: ir.Program) -> frozenset[ir.Device]:
    """Return the devices that a program works on: the declared ones, and those of its lines.

    What ops are given as an argument is not among them. Without a number that is the device which
    is current during the call.
    """
    lines = (device_of(line) for _, line in ir.walk(program))
    return declared_devices(program) | {device for device in lines if device is not None}


def device_of(line: ir.AnyLine) -> ir.Device | None:
    """Return the device that a line names for its work."""
    device: ir.Device | None = getattr(line, "device", None)
    return device


def mixed_with(device: ir.Device, others: Iterable[ir.Device]) -> ir.Device | None:
    """Return a device of the same type that has a number if the given one has none, or vice versa.

    Only kinds of which threads have a current device are told apart that way.
    """
    if not device.kind.is_accelerator:
        return None
    is_current = device.index is None
    found = (e for e in others if e.type == device.type and (e.index is None) != is_current)
    return min(found, key=str, default=None)


def is_on_one_stream(program: ir.Program) -> bool:
    """Return whether all work is for one device, on a stream that orders it.

    Memory of a device that is kept from call to call serves only one stream.
    """
    return len(accelerators_of(program)) <= 1 and all(each.captured for each in program.streams)
