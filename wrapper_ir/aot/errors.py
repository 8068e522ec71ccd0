"""Errors between an emitted C++ program and a file that others load."""

from __future__ import annotations

import string
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

import torch
from torch import Tensor

from wrapper_ir.devices import TYPE_NUMBERS
from wrapper_ir.errors import WrapperIRError
from wrapper_ir.runtime import (
    AlignmentError,
    ComputationError,
    InputCountError,
    InputLayoutError,
    MisalignedViewError,
    NoOutError,
    OutLayoutError,
    ProgramRunError,
    ResultLayoutError,
    SymbolError,
    TensorSpec,
    check_layout,
    check_number,
    check_object,
    check_out,
)
from wrapper_ir.toolchain.parts import DTYPE_NUMBERS
from wrapper_ir.toolchain.triton import TritonKernelError

if TYPE_CHECKING:
    from collections.abc import Sequence


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


# Errors of a C++ program that is called wrongly or fails, in the words of the Python emitter.
#
# C++ code sends a code, a message and the words in it by name. Here they become the exception that
# the Python emitter would have raised for the same mistake, with the place in the program.

_CLASSES: Final[dict[str, type[WrapperIRError]]] = {
    each.code: each
    for each in (
        AlignmentError,
        ComputationError,
        InputLayoutError,
        MisalignedViewError,
        OutLayoutError,
        ResultLayoutError,
        SymbolError,
        TritonKernelError,
    )
}

#: Fields that are numbers, which C++ knows as its message shows them.
_NUMBERS: Final = ("address", "alignment", "offset")

#: Kinds of inputs, by the numbers of ``wir::Kind``.
_KINDS: Final = (Tensor, int, float, bool, type(None), torch.ScriptObject)

_DTYPES: Final = {
    number: getattr(torch, name) for name, number in DTYPE_NUMBERS.items() if hasattr(torch, name)
}


#: ``wir::device::any``.
_ANY_DEVICE: Final = -1

#: Inputs whose shapes are told where something fails; weights among them are seldom to blame.
_MOST_SHOWN: Final = 16


class InputSpec(NamedTuple):
    """The fixed part of an input or a constant; ``device`` is None if it may be on any."""

    name: str
    kind: type
    dtype: torch.dtype | None
    device: torch.device | None
    size: tuple[int | None, ...]
    stride: tuple[int | None, ...]
    class_name: str = ""
    """Of an object of a custom class."""


def input_specs(described: Sequence[tuple[Any, ...]]) -> tuple[InputSpec, ...]:
    """Return specifications from what the extension module tells of a library."""
    return tuple(_input_spec(*each) for each in described)


def _input_spec(  # noqa: PLR0913 - the fields of a struct
    name: str,
    kind: int,
    dtype: int,
    device_type: int,
    device_index: int,
    size: tuple[int | None, ...],
    stride: tuple[int | None, ...],
    class_name: str,
) -> InputSpec:
    if _KINDS[kind] is not Tensor:
        return InputSpec(name, _KINDS[kind], None, None, (), (), class_name)
    where = None if device_type == _ANY_DEVICE else _device(device_type, device_index)
    return InputSpec(name, Tensor, _DTYPES[dtype], where, size, stride)


def _device(type_: int, index: int) -> torch.device:
    name = {number: name for name, number in TYPE_NUMBERS.items()}[type_]
    return torch.device(name) if index < 0 else torch.device(name, index)


class Reporter:
    """Words the errors of one function; called by the extension module, when something is wrong.

    Args:
        name: What the program is called.
        inputs: What its inputs must be.
        outputs: What memory for its results must be.
        constants: What its constants must be.
    """

    def __init__(
        self,
        name: str,
        inputs: tuple[InputSpec, ...],
        outputs: tuple[InputSpec, ...],
        constants: tuple[InputSpec, ...],
    ) -> None:
        self._name = name
        self._inputs = inputs
        self._outputs = outputs
        self._constants = constants

    def refuse_count(self, got: int) -> NoReturn:
        """Raise for a wrong number of inputs."""
        raise InputCountError(expected=len(self._inputs), got=got)

    def check_input(self, position: int, value: object, odd: int) -> None:
        """Raise unless an input is right after all.

        Args:
            position: Which input.
            value: The input.
            odd: Whether it is a tensor whose elements are not just what is in memory: a subclass
                that computes otherwise, or a wrapper of ``torch.func``.

        Raises:
            InputLayoutError: It is not.
        """
        spec = self._inputs[position]
        if spec.kind is Tensor:
            _check_tensor(spec, value)
            if odd:
                _refuse(spec, "an ordinary tensor", f"one of type {type(value).__name__}")
            return
        if spec.class_name:
            check_object(value, spec.name, spec.class_name)
            _refuse(spec, f"an object of class {spec.class_name}", "one that cannot be passed on")
        check_number(spec.name, value, spec.kind)
        _refuse(spec, f"a number of type {spec.kind.__name__} of at most 64 bits", f"{value!r}")

    def refuse_out(self) -> NoReturn:
        """Raise for memory for results, given to a program that takes none."""
        raise NoOutError(program=self._name)

    def check_out(
        self, out: Sequence[Any], odd: int, inputs: Sequence[object], constants: Sequence[object]
    ) -> None:
        """Raise unless memory for results is right after all.

        Args:
            out: What was given.
            odd: Position of a tensor as :meth:`check_input` says; -1 if there is none.
            inputs: Those of the call; None for those that are no tensors.
            constants: The program's.

        Raises:
            OutCountError: It is no list, or not as long as there are results.
            OutLayoutError: A tensor is not like its result.
            OutOverlapError: One shares memory with another one, an input or a constant.
        """
        specs = [_tensor_spec(spec) for spec in self._outputs]
        if odd >= 0 and out[odd].layout is torch.strided and out[odd].device.type == "cpu":
            # Its elements may have no address that could be compared with others.
            raise OutLayoutError(
                name=f"out[{odd}]",
                difference="type",
                expected="an ordinary tensor",
                got=f"one of type {type(out[odd]).__name__}",
            )
        check_out(specs, out, (*inputs, *constants))

    def check_constants(self, values: Sequence[object]) -> None:
        """Raise unless every constant is a tensor of the layout that the program was made for.

        Raises:
            InputLayoutError: One is not.
        """
        if len(values) != len(self._constants):
            raise InputCountError(expected=len(self._constants), got=len(values))
        for spec, value in zip(self._constants, values, strict=True):
            if isinstance(value, Tensor) and value.is_mkldnn:
                # What a library has packed has a dtype and a size, but no strides.
                like = torch.empty((), dtype=value.dtype).expand(value.shape)
                _check_tensor(spec._replace(stride=(None,) * len(spec.stride)), like)
                continue
            _check_tensor(spec, value)

    def error(
        self,
        words: tuple[str, str, str],
        fields: tuple[str, tuple[str, ...]],
        place: tuple[str, str, str],
        inputs: Sequence[object],
    ) -> WrapperIRError:
        """Return the exception for an error that C++ code has found.

        Args:
            words: Its code, message and hint.
            fields: The names of its fields, in braces in a text, and what each says; none of them
                for an error that has no class in Python.
            place: Path of the line, the line in short, and where in the model it comes from.
            inputs: Those of the call that are still there.
        """
        code, message, hint = words
        path, what, source = place
        if code == ProgramRunError.code and what:
            message = f"{what}: {message}"  # PyTorch's words alone seldom say which op it was
        known = {"path": path or None, "origin": source or None, "hint": hint or None}
        values = _values(*fields)
        made: WrapperIRError
        made = (
            _CLASSES[code](**known, **values)
            if values
            else ProgramRunError(problem=message, **known)
        )
        if what and what != path:  # "inputs" and "results" are no lines
            made.add_note(f"while running {what}")
        self._note_inputs(made, inputs)
        return made

    def noted(
        self, error: BaseException, place: tuple[str, str, str], inputs: Sequence[object]
    ) -> BaseException:
        """Add to an exception of somebody else's where in the program it came from."""
        path, what, source = place
        if path:
            where = f" ({source})" if source else ""
            error.add_note(f"while running {path} of the program{where}: {what}")
        self._note_inputs(error, inputs)
        return error

    def _note_inputs(self, error: BaseException, inputs: Sequence[object]) -> None:
        tensors = [
            f"{spec.name} = {_shape(value)}"
            for spec, value in zip(self._inputs, inputs, strict=True)
            if isinstance(value, Tensor)
        ]
        if tensors:
            more = len(tensors) - _MOST_SHOWN
            shown = tensors[:_MOST_SHOWN] + ([f"and {more} more"] if more > 0 else [])
            error.add_note("called with " + ", ".join(shown))


def _shape(value: Tensor) -> str:
    return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"


def _check_tensor(spec: InputSpec, value: object) -> None:
    assert spec.dtype is not None
    check_layout(
        value,  # type: ignore[arg-type]  # whether it is a tensor is part of the check
        spec.name,
        spec.dtype,
        spec.device,
        spec.size,
        spec.stride,
    )


def _tensor_spec(spec: InputSpec) -> TensorSpec | None:
    """Return what is asked of memory for a result; None for one that is no tensor."""
    if spec.kind is not Tensor:
        return None
    assert spec.dtype is not None
    assert spec.device is not None
    return TensorSpec(spec.name, spec.dtype, spec.size, spec.stride, spec.device)


def _refuse(spec: InputSpec, expected: str, got: str) -> NoReturn:
    raise InputLayoutError(
        name=spec.name,
        difference="type",
        expected=expected,
        got=got,
        hint="pass inputs in the order and form in which the program was made",
    )


def _values(names: str, words: tuple[str, ...]) -> dict[str, Any]:
    """Return fields by their names."""
    found = [field for _, field, _, _ in string.Formatter().parse(names) if field]
    pairs = zip(found, words, strict=True)
    return {name: int(word, 0) if name in _NUMBERS else word for name, word in pairs}
