"""The host."""

from __future__ import annotations

from typing import Final

from wrapper_ir.devices.kind import CppSide, DeviceKind, Memory, PythonSide
from wrapper_ir.devices.languages import CPP

CPU: Final = DeviceKind(
    type="cpu",
    noun="CPU",
    plural="the CPU",
    has_index=False,
    languages=(CPP,),
    # 64 bytes: a cache line, and the alignment of torch's own storages.
    memory=Memory(alignment=64, on_host=True, keeps_arenas=True, keep_factor=1),
    python=PythonSide(allocator="empty_strided_cpu", arena="KeptArena"),
    cpp=CppSide(shim="cpu", runner="Cpu", library="libtorch_cpu.so", target="torch_cpu"),
)
"""The CPU, whose memory is the host's."""
