"""The devices besides the host that a program runs on."""

from __future__ import annotations

import wrapper_ir.lines as ir


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
    pairs = {(each.type, each.index or 0) for each in used}
    return tuple(ir.Device(*pair) for pair in sorted(pairs))


def is_on_one_stream(program: ir.Program) -> bool:
    """Return whether all work is for one device, on a stream that orders it.

    Memory of a device that is kept from call to call serves only one stream.
    """
    return len(accelerators_of(program)) <= 1 and all(each.captured for each in program.streams)
