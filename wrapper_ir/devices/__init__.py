"""Kinds of devices as values: the single source of device facts for the rest of the library.

A :class:`DeviceKind` is one declarative value. ``CPU`` and ``CUDA`` are two of them. Packages add
others as entry points of the group ``wrapper_ir.devices``, processes by :func:`register_device`,
and nothing else in the library needs to change. Nothing here imports torch.
"""

from wrapper_ir.devices.kind import (
    CppSide,
    DeviceKind,
    Doctor,
    Inventory,
    KernelLanguage,
    Launcher,
    Memory,
    MemorySpace,
    OpaqueLayout,
    PythonSide,
    Queues,
    Unit,
    named,
)
from wrapper_ir.devices.known import CPP, CPU, CUDA, TRITON
from wrapper_ir.devices.registry import (
    TYPE_NUMBERS,
    DeviceLoadError,
    DuplicateDeviceError,
    accelerators,
    installed,
    is_registered,
    kind_of,
    number_of,
    register_device,
    registered,
    unregister_device,
    vendor_language,
)

__all__ = [
    "CPP",
    "CPU",
    "CUDA",
    "TRITON",
    "TYPE_NUMBERS",
    "CppSide",
    "DeviceKind",
    "DeviceLoadError",
    "Doctor",
    "DuplicateDeviceError",
    "Inventory",
    "KernelLanguage",
    "Launcher",
    "Memory",
    "MemorySpace",
    "OpaqueLayout",
    "PythonSide",
    "Queues",
    "Unit",
    "accelerators",
    "installed",
    "is_registered",
    "kind_of",
    "named",
    "number_of",
    "register_device",
    "registered",
    "unregister_device",
    "vendor_language",
]
