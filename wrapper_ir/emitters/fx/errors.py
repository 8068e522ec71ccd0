"""Errors of emitted graphs."""

from __future__ import annotations

from wrapper_ir.errors import WrapperIRError


class KernelDeviceError(WrapperIRError):
    """A C++ kernel was called with a tensor that is not in the host's memory.

    Fields: ``kernel`` and ``device``.
    """

    code = "WIR2301"
    template = "kernel '{kernel}' is a C++ function: it cannot take a tensor on {device}"


class LaunchError(WrapperIRError):
    """A node launches a Triton kernel with arguments that it cannot take.

    Fields: ``kernel`` and ``reason``.
    """

    code = "WIR2302"
    template = "Triton kernel '{kernel}' cannot be launched: {reason}"
