"""Programs without the number of their GPU, which each process runs on its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import wrapper_ir.lines as ir
from wrapper_ir.analysis.devices import devices_in


@dataclass(frozen=True, slots=True)
class CurrentDevice:
    """``current-device`` takes its number from the GPU of a program that uses only one.

    The program then runs on the device that is current when it is loaded, and its text is the same
    for all ranks of a machine.
    """

    name: ClassVar[str] = "current-device"

    def __call__(self, program: ir.Program) -> ir.Program:
        """Return the program without the number; one that uses several devices stays as it is."""
        parts = (program,) if program.folding is None else (program, program.folding)
        used = {each for part in parts for each in devices_in(part) if each.kind.is_accelerator}
        if len(used) != 1 or next(iter(used)).index is None:
            return program
        (numbered,) = used
        current = ir.Device(numbered.type)
        return ir.map_devices(program, lambda each: current if each == numbered else each)
