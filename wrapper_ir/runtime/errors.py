"""Errors of emitted modules that are loaded or called wrongly, one class per mistake."""

from __future__ import annotations

from wrapper_ir.errors import WrapperIRError

__all__ = [
    "ComputationError",
    "ConstantsError",
    "InputCountError",
    "InputLayoutError",
    "ProgramRunError",
    "SymbolError",
    "UserObjectError",
]


class InputLayoutError(WrapperIRError, AssertionError):
    """An input is not the tensor that the program was made for.

    It is an AssertionError, too, as what Inductor's wrappers raise for the same mistake.

    Fields: ``name`` of the input, ``expected`` and ``got`` describe tensors, ``difference`` says
    in which respects they differ.
    """

    code = "WIR2151"
    template = "input {name!r} has the wrong {difference}: expected {expected}, got {got}"


class InputCountError(WrapperIRError, TypeError):
    """A program was called with too few or too many inputs.

    Fields: ``expected`` and ``got`` are numbers of inputs.
    """

    code = "WIR2152"
    template = "the program takes {expected} inputs, not {got}"


class SymbolError(WrapperIRError, RuntimeError, AssertionError):
    """A symbolic size has a value that the program was not made for.

    It is a RuntimeError, as what stock Inductor raises where a check of sizes known only at run
    time fails, and an AssertionError, as what it raises for other inputs.

    Fields: ``relation`` is what has to hold, ``values`` what the symbols are.
    """

    code = "WIR2153"
    template = "the program needs {relation}, but {values}"
    default_hint = (
        "give inputs for which that holds, or make the program so that what varies is dynamic"
    )


class ConstantsError(WrapperIRError):
    """The file with a module's constants is missing, damaged, or not of this module.

    Fields: ``file`` and ``reason``.
    """

    code = "WIR2154"
    template = "constants in {file}: {reason}"


class ProgramRunError(WrapperIRError, RuntimeError):
    """Something went wrong while a program in C++ was running.

    It is a RuntimeError, too, as what PyTorch raises for most mistakes.

    Fields: ``problem`` is what was said where it happened.
    """

    code = "WIR2160"
    template = "{problem}"


class ComputationError(WrapperIRError, ArithmeticError):
    """A number in a program cannot be computed: it is too large, or not defined.

    Fields: ``problem`` says so in words.
    """

    code = "WIR2161"
    template = "{problem}"


class UserObjectError(WrapperIRError, LookupError):
    """A program uses a stream, an event or a memory pool that its caller did not bring.

    Fields: ``number`` is the object's, ``problem`` what was found in its place.
    """

    code = "WIR2174"
    template = "the program uses object {number} of the user's, which is not there: {problem}"
    default_hint = "call the function that torch.compile made; it says which objects are meant"


class ResultLayoutError(WrapperIRError, AssertionError):
    """A library op returned a tensor that the program was not made for.

    It is an AssertionError, too, as what Inductor's wrappers raise for the same event. Kernels
    were compiled for the layout that the op had when the program was made; another version of
    torch, or another setting of it, may have changed the op's mind.

    Fields: ``op``, and ``difference``, ``expected`` and ``got`` as of InputLayoutError.
    """

    code = "WIR2156"
    template = "'{op}' returned a tensor of another {difference}: expected {expected}, got {got}"
    default_hint = "make the program again, with the torch version and settings it runs under"


class AlignmentError(WrapperIRError, AssertionError):
    """A tensor does not begin where kernels that load several elements at once need it to.

    Fields: ``name``, ``alignment`` and ``address``.
    """

    code = "WIR2157"
    template = "'{name}' is not aligned to {alignment} bytes: its data is at {address:#x}"
    default_hint = "copy it into a new tensor"
