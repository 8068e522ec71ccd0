"""Errors between an emitted C++ program and a file that others load."""

from __future__ import annotations

from wrapper_ir.errors import WrapperIRError


class KernelIsaError(WrapperIRError):
    """A kernel was written for wider vectors than the instruction set asked for has.

    Fields: ``kernel`` names it, ``written`` is what it was written for, ``isa`` what was asked for.
    """

    code = "WIR2271"
    template = "kernel {kernel!r} was written for {written!r} and cannot be built for {isa!r}"
    default_hint = (
        "the vector width is part of a kernel's text: capture the model for it, with"
        " wir.capture(..., isa={isa!r})"
    )


class ConstantValueError(WrapperIRError):
    """The value of a constant is missing or does not fit its layout.

    Fields: ``name`` is the constant's qualified name, ``reason`` says what is wrong.
    """

    code = "WIR2272"
    template = "constant {name!r} cannot be stored: {reason}"


class TooLargeError(WrapperIRError):
    """The constants do not fit into a library.

    Fields: ``size`` in bytes, ``limit`` likewise.
    """

    code = "WIR2273"
    template = "constants of {size} bytes cannot be embedded in a library, which holds {limit}"
    default_hint = "keep them beside it: constants='beside'"


class ExportPathError(WrapperIRError):
    """A path cannot be exported to.

    Fields: ``target`` is the path, ``reason`` says why.
    """

    code = "WIR2274"
    template = "cannot export to {target!r}: {reason}"


class GpuArchError(WrapperIRError):
    """Triton kernels cannot be compiled: it is not known for which GPU."""

    code = "WIR2275"
    template = "there is no GPU here that Triton kernels could be compiled for"
    default_hint = "name an architecture: gpu_arch='sm_90', or several"
