"""Errors of the front end, one class per mistake."""

from __future__ import annotations

import traceback
from typing import Any, ClassVar

from wrapper_ir.errors import WrapperIRError
from wrapper_ir.frontends.releases import in_words


def words_of(error: Exception) -> str:
    """Return what an error says; of one without words, what it is and where it comes from."""
    if text := str(error).strip():
        return text
    kind = type(error).__name__
    frames = traceback.extract_tb(error.__traceback__)
    return f"{kind} in {frames[-1].name} ({frames[-1].filename})" if frames else kind


class UnsupportedLineError(WrapperIRError):
    """One of Inductor's wrapper lines has no typed form.

    Fields: ``kind`` is the class of the line (``raw string`` for text that Inductor wrote itself),
    ``text`` shows it, ``why`` gives the reason.
    """

    code = "WIR3001"
    template = "Inductor's {kind} has no form in a wrapper program: {text} ({why})"
    default_hint = "with on_unsupported='stock' Inductor's own wrapper is used for such graphs"

    def __init__(self, kind: str, text: str, why: str, **more: Any) -> None:
        super().__init__(kind=kind, text=text, why=why, **more)


class UnsupportedTorchError(WrapperIRError):
    """This torch is not supported, or lacks something that the front end needs.

    Fields: ``version`` is torch's, ``problem`` says what is wrong with it.
    """

    code = "WIR3002"
    template = "the Inductor front end does not support torch {version}: {problem}"
    default_hint: ClassVar[str] = f"it supports torch {in_words()}"


class UnsupportedConfigError(WrapperIRError):
    """Inductor is configured to use a wrapper other than the one that we replace.

    Fields: ``setting`` names the configuration.
    """

    code = "WIR3003"
    template = "Inductor's {setting} selects a wrapper of its own, so no program can be made"
    default_hint = "turn it off, and choose the target with the option 'emitter': 'cpp' is C++"


class UnsupportedDeviceError(WrapperIRError):
    """A graph runs on a device that the front end does not support.

    Fields: ``device`` is its type.
    """

    code = "WIR3004"
    template = "the Inductor front end does not support the device type {device!r}"
    default_hint = (
        "a package can register it (docs/devices.md); with on_unsupported='stock' Inductor's own "
        "wrapper is used for such graphs"
    )


class SchedulingError(WrapperIRError):
    """The kernels of a device cannot be generated as its ``DeviceKind`` says.

    Fields: ``device`` is its type, ``problem`` gives the reason.
    """

    code = "WIR3007"
    template = "Inductor cannot generate kernels for the device type {device!r}: {problem}"
    default_hint = "correct its DeviceKind: docs/devices.md lists the values of 'scheduling'"


class CaptureError(WrapperIRError):
    """``capture`` could not make a program of a model.

    Fields: ``problem`` gives the reason.
    """

    code = "WIR3005"
    template = "the model cannot be captured: {problem}"


class InstallOrderError(WrapperIRError):
    """``uninstall`` was called with nothing installed."""

    code = "WIR3006"
    template = "uninstall() was called, but nothing is installed in this context"
    default_hint = "call uninstall() once for each install(), in the same thread"


class NothingCalledError(WrapperIRError, ValueError):
    """A call that is to be explained ran no graph that was compiled by us.

    Fields: ``what`` names what was called.
    """

    code = "WIR3008"
    template = "the call of {what} ran no graph that wrapper_ir compiled"
    default_hint = "compile it with torch.compile(..., backend='wrapper_ir')"


class ContractWarning(UserWarning):
    """A breach that is an error without ``on_breach="warn"`` or ``validate="warn"``."""


class JitError(WrapperIRError):
    """A call of a function of ``wir.jit`` would run op by op, which ``fallback=False`` forbids.

    Fields: ``name`` is the function's, ``reason`` says why.
    """

    code = "WIR3011"
    template = "a call of '{name}' cannot run a program: {reason}"
    default_hint = "without fallback=False such calls run op by op"
