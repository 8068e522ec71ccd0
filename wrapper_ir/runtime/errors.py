"""Errors in loading or calling emitted modules, one class per mistake."""

from __future__ import annotations

from typing import Any, Final

from wrapper_ir.errors import WrapperIRError


class InputLayoutError(WrapperIRError, AssertionError):
    """An input is not the kind of tensor that the program was made for.

    It is also an AssertionError, which Inductor's wrappers raise for the same mistake.

    Fields: ``name`` of the input, ``expected`` and ``got`` describe tensors, ``difference`` lists
    the respects in which they differ.
    """

    code = "WIR2151"
    template = "input {name!r} has the wrong {difference}: expected {expected}, got {got}"


OTHER_INPUTS: Final = "pass inputs in the order and form in which the program was made"
"""The hint where inputs are mixed up."""


def wrong_type(name: str, expected: str, got: str) -> InputLayoutError:
    """Return the error for an input of another type."""
    return InputLayoutError(
        name=name, difference="type", expected=expected, got=got, hint=OTHER_INPUTS
    )


class InputCountError(WrapperIRError, TypeError):
    """A program was called with too few or too many inputs.

    Fields: ``expected`` and ``got`` are numbers of inputs.
    """

    code = "WIR2152"
    template = "the program takes {expected} inputs, not {got}"


class SymbolError(WrapperIRError, RuntimeError, AssertionError):
    """A symbolic size has a value that the program was not made for.

    It is also a RuntimeError and an AssertionError: stock Inductor raises the former if a check of
    a size known only at run time fails, and the latter for inputs.

    Fields: ``relation`` is the condition, ``values`` the values of the symbols.
    """

    code = "WIR2153"
    template = "the program needs {relation}, but {values}"
    default_hint = "pass inputs that satisfy it, or recapture with the varying sizes dynamic"


class ConstantsError(WrapperIRError):
    """The file with a module's constants is missing, damaged, or belongs to another module.

    Fields: ``file`` and ``reason``.
    """

    code = "WIR2154"
    template = "constants in {file}: {reason}"


class MissingGroupError(WrapperIRError, RuntimeError):
    """A program calls a process group that this process does not have.

    It is also a RuntimeError, which PyTorch raises for it.

    Fields: ``group`` is its name, ``op`` what is called.
    """

    code = "WIR2162"
    template = "'{op}' calls the process group {group!r}, which this process does not have"
    default_hint = (
        "call torch.distributed.init_process_group before the program, which makes the group '0', "
        "and make other groups in the order in which they were made where the program was captured"
    )


class ProgramRunError(WrapperIRError, RuntimeError):
    """A C++ program failed while it was running.

    It is also a RuntimeError, which PyTorch raises for most mistakes. Where a library op raises
    something else in Python, such as ``torch.linalg.LinAlgError``, it is of that class, too.

    Fields: ``problem`` is the original message.
    """

    code = "WIR2160"
    template = "{problem}"


def run_error(kind: type[Exception]) -> type[ProgramRunError]:
    """Return ProgramRunError or, where that is no ``kind``, a class that is both."""
    if issubclass(ProgramRunError, kind):
        return ProgramRunError

    def reduce(self: ProgramRunError) -> tuple[Any, ...]:
        return _rebuild, (kind, WrapperIRError.__reduce__(self)[1][1])

    return type("ProgramRunError", (ProgramRunError, kind), {"__reduce__": reduce})


def _rebuild(kind: type[Exception], keywords: dict[str, Any]) -> ProgramRunError:
    return run_error(kind)(**keywords)


class ComputationError(WrapperIRError, ArithmeticError):
    """A number in a program cannot be computed: it is too large or undefined.

    Fields: ``problem`` is the message.
    """

    code = "WIR2161"
    template = "{problem}"


class UserObjectError(WrapperIRError, LookupError):
    """A program uses a stream, an event or a memory pool that its caller does not provide.

    Fields: ``number`` is the object's number, ``problem`` the reason.
    """

    code = "WIR2174"
    template = "the program uses user object {number}, which is missing: {problem}"
    default_hint = "call the function that torch.compile returned; it provides these objects"


class ResultLayoutError(WrapperIRError, AssertionError):
    """A library op returned something that the program was not made for.

    It is also an AssertionError, which Inductor's wrappers raise for the same event. Kernels were
    compiled for the layout that the op returned when the program was made. Another version or
    setting of torch may give another layout.

    Fields: ``op``, and ``difference``, ``expected`` and ``got`` as in InputLayoutError.
    """

    code = "WIR2156"
    template = (
        "'{op}' returned a result with a different {difference}: expected {expected}, got {got}"
    )
    default_hint = (
        "recapture with the torch version and settings in use; if the op is your own, its fake"
        " kernel (torch.library.register_fake) must describe what it returns"
    )


class AlignmentError(WrapperIRError, AssertionError):
    """A tensor's data is not aligned as vectorised kernels require.

    Fields: ``name``, ``alignment`` and ``address``.
    """

    code = "WIR2157"
    template = "'{name}' is not aligned to {alignment} bytes: its data is at {address:#x}"
    default_hint = "copy it into a new tensor"
