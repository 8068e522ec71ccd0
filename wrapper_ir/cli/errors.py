"""The errors of the command line: mistakes of the user's that the library never sees."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from wrapper_ir.errors import WrapperIRError
from wrapper_ir.outputs import why

if TYPE_CHECKING:
    from collections.abc import Iterator


class BadReferenceError(WrapperIRError):
    """A reference to an object in a module is malformed."""

    code = "WIR4001"
    template = "{text!r} does not name an object in a module"
    default_hint = "write package.module:attribute, or path/to/file.py:attribute"


class ModuleImportError(WrapperIRError):
    """A module cannot be found, or raises while it is imported."""

    code = "WIR4002"
    template = "cannot import {module!r}: {reason}"
    default_hint = "modules are searched for in the current directory, then on Python's path"


class MissingAttributeError(WrapperIRError):
    """The module exists, but the attribute does not."""

    code = "WIR4003"
    template = "{module!r} has no attribute {attribute!r}"


class NotAModelError(WrapperIRError):
    """The named object cannot be captured."""

    code = "WIR4004"
    template = "{reference!r} gives {what}, which cannot be captured"
    default_hint = (
        "name an nn.Module (and give --args), or a function without parameters that returns"
        " (module, args), (module, args, kwargs) or (module, args, kwargs, dynamic_shapes)"
    )


class UserCodeError(WrapperIRError):
    """User code (a factory, or a model while it is traced) raised an exception."""

    code = "WIR4005"
    template = "{what} failed: {reason}"
    default_hint = "--traceback shows where"


class FileError(WrapperIRError):
    """A file cannot be read or written. Fields: ``verb``, ``file``, ``reason``."""

    code = "WIR4006"
    template = "cannot {verb} {file}: {reason}"


@contextlib.contextmanager
def file_errors(verb: str, file: str) -> Iterator[None]:
    """Raise an ``OSError`` of the block as a :class:`FileError`."""
    try:
        yield
    except OSError as error:
        raise FileError(verb=verb, file=file, reason=why(error)) from error


class OptionSyntaxError(WrapperIRError):
    """The argument of ``-O`` is not of the form ``key=value``."""

    code = "WIR4007"
    template = "option {text!r} is not of the form key=value"


class InputsError(WrapperIRError):
    """The values do not fit the program's inputs."""

    code = "WIR4008"
    template = "the inputs do not fit the program: {reason}"


class NoTextError(WrapperIRError):
    """An emitter produces no text."""

    code = "WIR4010"
    template = "emitter {target!r} produces no text"
    default_hint = "in Python, wir.emit(program, target) returns what it produces"
