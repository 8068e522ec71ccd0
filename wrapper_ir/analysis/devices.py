"""The devices besides the host that a program runs on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wrapper_ir.lines.effects import effects
from wrapper_ir.lines.layout import CPU, Device
from wrapper_ir.lines.walk import walk

if TYPE_CHECKING:
    from wrapper_ir.lines.program import Program


def only_accelerator(program: Program) -> Device | None:
    """Return the accelerator that a program runs on, if there is exactly one."""
    found = {program.layout(name).device for name in (*program.buffers, *program.constants)}
    used = [device for device in found if device.kind.is_accelerator]
    return used[0] if len(used) == 1 else None


def accelerators_of(program: Program) -> tuple[Device, ...]:
    """Return the devices besides the host that lines use and C++ supports, numbered and sorted.

    An input that no line touches may be on any device.
    """
    away = {
        name: each.device
        for name, each in program.buffers.items()
        if each.device.type != CPU.type and each.device.kind.cpp is not None
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
    pairs = {(each.type, each.index or 0) for each in used}
    return tuple(Device(*pair) for pair in sorted(pairs))


def is_on_one_stream(program: Program) -> bool:
    """Return whether all work is for one device, on a stream that orders it.

    Memory of a device that is kept from call to call serves only one stream.
    """
    return len(accelerators_of(program)) <= 1 and all(each.captured for each in program.streams)
