"""What can go wrong with an emitted graph."""

from __future__ import annotations

from wrapper_ir.errors import WrapperIRError

__all__ = ["KernelDeviceError", "MissingConstantsError"]


class KernelDeviceError(WrapperIRError):
    """A C++ kernel was called with a tensor that is not in the host's memory.

    Fields: ``kernel`` and ``device``.
    """

    code = "WIR2301"
    template = "kernel '{kernel}' is a C++ function: it cannot take a tensor on {device}"


class MissingConstantsError(WrapperIRError):
    """A graph that is to be run has constants without values.

    Fields: ``program``, and ``names`` of the constants.
    """

    code = "WIR2302"
    template = "program '{program}' has no values for its constants {names}"
    default_hint = "give them in Program.data, or load the program with the file that holds them"
