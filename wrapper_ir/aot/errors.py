"""Errors in building, exporting and calling C++ programs."""

from __future__ import annotations

import string
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

import torch
from torch import Tensor

from wrapper_ir.devices import TYPE_NUMBERS
from wrapper_ir.errors import WrapperIRError
from wrapper_ir.runtime import errors, outputs
from wrapper_ir.runtime.apart import SharedMemoryError
from wrapper_ir.runtime.checks import TensorSpec, check_form, check_number, check_object
from wrapper_ir.runtime.errors import InputCountError, InputLayoutError, ProgramRunError
from wrapper_ir.runtime.views import MisalignedViewError
from wrapper_ir.toolchain.manifest import DTYPE_NUMBERS
from wrapper_ir.toolchain.triton import TritonKernelError

if TYPE_CHECKING:
    from collections.abc import Sequence


class KernelIsaError(WrapperIRError):
    """A kernel was written for wider vectors than the requested instruction set has.

    Fields: ``kernel`` names it, ``written`` is the instruction set it was written for, ``isa`` the
    requested one.
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

    Fields: ``size`` and ``limit``, in bytes.
    """

    code = "WIR2273"
    template = "constants of {size} bytes cannot be embedded in a library; the limit is {limit}"
    default_hint = "store them in a file beside it: constants='beside'"


class ExportPathError(WrapperIRError):
    """An export cannot be written to a path.

    Fields: ``target`` is the path, ``reason`` says why not.
    """

    code = "WIR2274"
    template = "cannot export to {target!r}: {reason}"


# Errors of a C++ program that is called wrongly or fails.
#
# C++ code passes an error code, a message and the message's fields. They become the exception that
# the Python emitter would have raised for the same mistake, with the place in the program.

_CLASSES: Final[dict[str, type[WrapperIRError]]] = {
    each.code: each
    for each in (
        *(errors.AlignmentError, errors.ComputationError, errors.ResultLayoutError),
        *(errors.SymbolError, InputLayoutError, MisalignedViewError, outputs.OutLayoutError),
        *(SharedMemoryError, TritonKernelError),
    )
}

#: Fields that are numbers. C++ code passes every field as its message shows it.
_NUMBERS: Final = ("address", "alignment", "offset")

#: Kinds of inputs, indexed by ``wir::Kind``.
_KINDS: Final = (Tensor, int, float, bool, type(None), torch.ScriptObject)

_DTYPES: Final = {
    number: getattr(torch, name) for name, number in DTYPE_NUMBERS.items() if hasattr(torch, name)
}


#: ``wir::device::any``.
_ANY_DEVICE: Final = -1

#: The number of inputs whose shapes a note shows; weights among them are seldom to blame.
_MOST_SHOWN: Final = 16


class InputSpec(NamedTuple):
    """The static properties of an input, result or constant."""

    name: str
    kind: type
    class_name: str = ""  #: that of an object of a custom class
    tensor: TensorSpec | None = None


def input_specs(rows: Sequence[tuple[Any, ...]]) -> tuple[InputSpec, ...]:
    """Return specifications from the extension module's description of a library."""
    return tuple(map(_input_spec, rows))


def _input_spec(row: tuple[Any, ...]) -> InputSpec:
    name, kind, dtype, device_type, device_index, size, stride, class_name, plain = row
    if _KINDS[kind] is not Tensor:
        return InputSpec(name, _KINDS[kind], class_name)
    device = None if device_type == _ANY_DEVICE else _device(device_type, device_index)
    spec = TensorSpec(name, _DTYPES[dtype], size, stride, device, plain)
    return InputSpec(name, Tensor, tensor=spec)


def _device(type_: int, index: int) -> torch.device:
    name = {number: name for name, number in TYPE_NUMBERS.items()}[type_]
    return torch.device(name) if index < 0 else torch.device(name, index)


@dataclass(frozen=True, slots=True)
class Reporter:
    """The errors of one function; the extension module calls it when a check in C++ fails."""

    name: str  #: the program's name
    inputs: tuple[InputSpec, ...]
    outputs: tuple[InputSpec, ...]  #: those of memory for its results
    constants: tuple[InputSpec, ...]

    def refuse_count(self, got: int) -> NoReturn:
        """Raise for a wrong number of inputs."""
        raise InputCountError(expected=len(self.inputs), got=got)

    def check_input(self, position: int, value: object, odd: int) -> None:
        """Raise InputLayoutError unless an input turns out to be valid.

        ``odd`` is true for a tensor whose elements are not simply those in its memory: a subclass
        with its own dispatch, or a wrapper of ``torch.func``.
        """
        spec = self.inputs[position]
        if spec.tensor is not None:
            spec.tensor.check(value)  # type: ignore[arg-type]  # which is part of the check
            assert isinstance(value, Tensor)
            check_form(value, spec.name, plain=spec.tensor.plain)
            if odd:
                got = f"one of type {type(value).__name__}"
                raise errors.wrong_type(spec.name, "an ordinary tensor", got)
            return
        if spec.class_name:
            check_object(value, spec.name, spec.class_name)
            expected = f"an object of class {spec.class_name}"
            raise errors.wrong_type(spec.name, expected, "one that cannot be passed on")
        check_number(spec.name, value, spec.kind)
        expected = f"a number of type {spec.kind.__name__} of at most 64 bits"
        raise errors.wrong_type(spec.name, expected, f"{value!r}")

    def refuse_out(self) -> NoReturn:
        """Raise for a program that was given memory for results but takes none."""
        raise outputs.NoOutError(program=self.name)

    def check_out(
        self, out: Sequence[Any], odd: int, inputs: Sequence[object], constants: Sequence[object]
    ) -> None:
        """Raise, as ``runtime.check_out`` does, unless memory for results is valid after all.

        ``odd`` is the position of a tensor that is odd in the sense of :meth:`check_input`, or -1.
        Inputs that are not tensors are None.
        """
        specs = [spec.tensor for spec in self.outputs]
        if odd >= 0 and out[odd].layout is torch.strided and out[odd].device.type == "cpu":
            # Its elements may have no address to check for overlaps.
            raise outputs.OutLayoutError(
                name=f"out[{odd}]",
                difference="type",
                expected="an ordinary tensor",
                got=f"one of type {type(out[odd]).__name__}",
            )
        outputs.check_out(specs, out, (*inputs, *constants))

    def check_constants(self, values: Sequence[object]) -> None:
        """Raise InputLayoutError unless every constant is a tensor of the expected layout."""
        if len(values) != len(self.constants):
            raise InputCountError(expected=len(self.constants), got=len(values))
        for (*_, spec), value in zip(self.constants, values, strict=True):
            assert spec is not None
            if isinstance(value, Tensor) and value.is_mkldnn:
                # A packed tensor has a dtype and a size, but no strides.
                like = torch.empty((), dtype=value.dtype).expand(value.shape)
                replace(spec, stride=(None,) * len(spec.stride)).check(like)
            else:
                spec.check(value)  # type: ignore[arg-type]  # as above

    def error(
        self,
        words: tuple[str, str, str],
        fields: tuple[str, tuple[str, ...]],
        place: tuple[str, str, str],
        inputs: Sequence[object],
        kind: type[Exception] | None,
    ) -> WrapperIRError:
        """Return the exception for an error that C++ code has found.

        Args:
            words: The error's code, message and hint.
            fields: The names of its fields, each in braces in one text, and their values; none for
                an error without a class in Python.
            place: The line's path, the line in short, and its place in the model's source.
            inputs: The inputs of the call that still exist.
            kind: What PyTorch raises in Python where an op failed.
        """
        code, message, hint = words
        path, what, source = place
        if code == ProgramRunError.code and what:
            message = f"{what}: {message}"  # PyTorch's own messages seldom name the op
        known = {"path": path or None, "origin": source or None, "hint": hint or None}
        values = _values(*fields)
        error = (
            _CLASSES[code](**known, **values)
            if values
            else errors.run_error(kind or RuntimeError)(problem=message, **known)
        )
        if what and what != path:  # "inputs" and "results" are not lines
            error.add_note(f"while running {what}")
        self._note_inputs(error, inputs)
        return error

    def noted(
        self, error: BaseException, place: tuple[str, str, str], inputs: Sequence[object]
    ) -> BaseException:
        """Add notes to a foreign exception that say where in the program it was raised."""
        path, what, source = place
        if path:
            where = f" ({source})" if source else ""
            error.add_note(f"while running {path} of the program{where}: {what}")
        self._note_inputs(error, inputs)
        return error

    def _note_inputs(self, error: BaseException, inputs: Sequence[object]) -> None:
        tensors = [
            f"{spec.name} = {str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
            for spec, value in zip(self.inputs, inputs, strict=True)
            if isinstance(value, Tensor)
        ]
        if tensors[_MOST_SHOWN:]:
            tensors[_MOST_SHOWN:] = [f"and {len(tensors) - _MOST_SHOWN} more"]
        if tensors:
            error.add_note("called with " + ", ".join(tensors))


def _values(names: str, words: tuple[str, ...]) -> dict[str, Any]:
    """Return an error's fields by name."""
    fields = (field for _, field, _, _ in string.Formatter().parse(names) if field)
    pairs = zip(fields, words, strict=True)
    return {name: int(word, 0) if name in _NUMBERS else word for name, word in pairs}
