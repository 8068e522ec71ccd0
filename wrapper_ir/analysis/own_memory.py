"""Memory of a device that its kind declares: who allocates what a line asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from wrapper_ir.lines.layout import OpaqueKind
from wrapper_ir.lines.memory import MemoryKind

if TYPE_CHECKING:
    from wrapper_ir.devices import DeviceKind, MemorySpace, OpaqueLayout
    from wrapper_ir.lines.layout import Layout
    from wrapper_ir.lines.memory import Allocate, AllocatePool


class OwnMemory(NamedTuple):
    """Memory of a device that its kind declares: an opaque layout or a memory space."""

    name: str
    kind: DeviceKind
    declared: OpaqueLayout | MemorySpace | None

    def problem(self, allocator: str, where: str) -> str:
        """Why it is not allocated somewhere, by a function of which that is the name, or none."""
        if self.declared is None:
            return f"devices of the kind '{self.kind.type}' have no {self.name}"
        if allocator:
            return ""
        return f"its kind names nothing that allocates the {self.name} in {where}"

    @property
    def python(self) -> str:
        """What allocates it in Python; empty for nothing."""
        return "" if self.declared is None else self.declared.allocator

    @property
    def cpp(self) -> str:
        """What allocates it in C++; empty for nothing."""
        return "" if self.declared is None else self.declared.cpp_allocator


def own_memory(line: Allocate | AllocatePool, layout: Layout) -> OwnMemory | None:
    """Return the memory of the device's own that a line allocates; None if it is the usual one."""
    kind, space = layout.device.kind, line.space
    if isinstance(layout.kind, OpaqueKind):
        made = kind.memory.layouts.get(layout.kind.name)
        return OwnMemory(f"layout '{layout.kind.value}'", kind, made)
    if not space:
        return None
    if line.memory is not MemoryKind.DEFAULT:
        return OwnMemory(f"{line.memory.value} memory in the memory space '{space}'", kind, None)
    return OwnMemory(f"memory space '{space}'", kind, kind.memory.spaces.get(space))
