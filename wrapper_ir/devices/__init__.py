"""Kinds of devices as objects: what one is stands here once, and everybody asks.

A :class:`DeviceKind` is one declarative value. The CPU and CUDA are two of them; :func:`register`
takes others, and nothing else in the library has to know of it. Nothing here imports torch.
"""

from wrapper_ir.devices.cpu import CPU
from wrapper_ir.devices.cuda import CUDA
from wrapper_ir.devices.kind import (
    CppSide,
    DeviceKind,
    Doctor,
    Inventory,
    KernelLanguage,
    Memory,
    PythonSide,
    Unit,
)
from wrapper_ir.devices.languages import CPP, TRITON, Launcher
from wrapper_ir.devices.registry import (
    DuplicateDeviceError,
    accelerators,
    is_registered,
    kind_of,
    register,
    registered,
    unregister,
    vendor_language,
)

__all__ = [
    "CPP",
    "CPU",
    "CUDA",
    "TRITON",
    "CppSide",
    "DeviceKind",
    "Doctor",
    "DuplicateDeviceError",
    "Inventory",
    "KernelLanguage",
    "Launcher",
    "Memory",
    "PythonSide",
    "Unit",
    "accelerators",
    "is_registered",
    "kind_of",
    "register",
    "registered",
    "unregister",
    "vendor_language",
]
