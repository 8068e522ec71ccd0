"""Errors that the interpreter raises: broken promises, with the line's path and origin."""

from __future__ import annotations

from wrapper_ir.errors import WrapperIRError


class UndefinedBufferError(WrapperIRError):
    """A line names a buffer that is not there. Field: ``name``."""

    code = "WIR2401"
    template = "%{name} is not defined here"


class DeadBufferError(WrapperIRError):
    """A line uses a buffer whose storage has ended. Fields: ``name`` and ``why``."""

    code = "WIR2402"
    template = "%{name} is used, but its storage {why}"


class WrongEndError(WrapperIRError):
    """A line ends or takes storage that is not its to end. Fields: ``name`` and ``why``."""

    code = "WIR2403"
    template = "the storage of %{name} cannot end here: {why}"


class LeakError(WrapperIRError):
    """Storage of a planned program was never ended. Field: ``names``."""

    code = "WIR2404"
    template = "never freed, reused or returned: {names}"


class OutOfBoundsError(WrapperIRError):
    """A view, slice or reuse does not fit. Fields: ``name`` and ``why``."""

    code = "WIR2405"
    template = "%{name} does not fit: {why}"


class StrayWriteError(WrapperIRError):
    """A call changed bytes that it was not passed for writing.

    Fields: ``call``, ``count`` of bytes, ``name`` of the buffer, ``at`` the first byte.
    """

    code = "WIR2406"
    template = (
        "'{call}' changed {count} bytes behind %{name} that it may not write, the first at {at}"
    )


class RedZoneError(WrapperIRError):
    """A call wrote outside of a storage. Fields: ``call``, ``name`` and ``where``."""

    code = "WIR2407"
    template = "'{call}' wrote where the storage of %{name} is not: {where}"


class BrokenPromiseError(WrapperIRError):
    """A call did not do what its line says. Fields: ``call`` and ``what``."""

    code = "WIR2408"
    template = "'{call}' does not do what the program says: {what}"


class SymbolValueError(WrapperIRError):
    """A number cannot be computed, or is outside its range. Field: ``what``."""

    code = "WIR2409"
    template = "{what}"


class CallFailedError(WrapperIRError, RuntimeError):
    """A kernel or library op raised. Fields: ``call`` and ``reason``."""

    code = "WIR2410"
    template = "'{call}' failed: {reason}"


class MissingValueError(WrapperIRError):
    """A program that is to be run has constants without values. Field: ``names``."""

    code = "WIR2411"
    template = "there are no values for the constants {names}"
    default_hint = "give them in Program.data, or load the program with the file that holds them"
