"""The errors of the command line: what a user can get wrong before the libraries are asked."""

from __future__ import annotations

from wrapper_ir.errors import WrapperIRError


class BadReferenceError(WrapperIRError):
    """A reference to an object in a module is malformed."""

    code = "WIR4001"
    template = "{text!r} does not name an object in a module"
    default_hint = "write package.module:attribute, or path/to/file.py:attribute"


class ModuleImportError(WrapperIRError):
    """A module that was named cannot be imported, or fails while it is."""

    code = "WIR4002"
    template = "cannot import {module!r}: {reason}"
    default_hint = "modules are looked for in the current directory first, then where Python looks"


class MissingAttributeError(WrapperIRError):
    """The module is there, the attribute is not."""

    code = "WIR4003"
    template = "{module!r} has no attribute {attribute!r}"


class NotAModelError(WrapperIRError):
    """The object named is not something that can be captured."""

    code = "WIR4004"
    template = "{reference!r} gives {what}, which cannot be captured"
    default_hint = (
        "name an nn.Module (with --args), or a function without parameters that returns"
        " (module, args), (module, args, kwargs) or (module, args, kwargs, dynamic_shapes)"
    )


class UserCodeError(WrapperIRError):
    """Code of the user's (a factory, a model while it is traced) raised an exception."""

    code = "WIR4005"
    template = "{what} failed: {reason}"
    default_hint = "--traceback shows where"


class FileError(WrapperIRError):
    """A file cannot be read or written. Fields: ``verb``, ``file``, ``reason``."""

    code = "WIR4006"
    template = "cannot {verb} {file}: {reason}"


class OptionSyntaxError(WrapperIRError):
    """An ``-O`` is not a ``key=value``."""

    code = "WIR4007"
    template = "option {text!r} is not of the form key=value"


class InputsError(WrapperIRError):
    """The tensors given do not fit the program's inputs."""

    code = "WIR4008"
    template = "the inputs do not fit the program: {reason}"


class MissingExampleError(WrapperIRError):
    """The demo's model is not where it should be."""

    code = "WIR4009"
    template = "the demo's model {file} is missing"
    default_hint = "run it from a checkout, or give a model of your own to `wrapper-ir capture`"


class NoTextError(WrapperIRError):
    """A target's result is not text, and text was asked for."""

    code = "WIR4010"
    template = "emitter {target!r} writes no text"
    default_hint = "from Python, wir.emit(program, target) gives what it makes"


class BypassedError(WrapperIRError):
    """The demonstration compiled something, and nothing of it went through wrapper_ir."""

    code = "WIR4011"
    template = "{what} was compiled, but not by wrapper_ir: no program was recorded"
    default_hint = "another backend may be registered for this device in this process"
