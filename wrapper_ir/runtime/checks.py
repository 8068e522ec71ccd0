"""Checks of inputs and symbols: cheap while they pass, clear when they fail.

``check_layout`` compares one tensor in Python, about 0.3 us. ``InputChecks`` compares all inputs
of a program in one call into torch, about 0.07 us per input, and falls back to ``check_layout`` if
torch's comparison, which is stricter than necessary, fails.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from wrapper_ir.runtime import errors
from wrapper_ir.runtime._private import tensor_guard

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor


_CPU = torch.device("cpu")

#: The most kinds of valid inputs to remember: training, inference and two more.
_MAX_GUARDS = 4


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """The expected layout of one input. A size, stride or device of None is not checked.

    With ``plain``, a complex input must not be conjugated or negated lazily; a real one never may.
    """

    name: str
    dtype: torch.dtype
    size: tuple[int | None, ...]
    stride: tuple[int | None, ...]
    device: torch.device | None = _CPU
    plain: bool = False

    def check(self, tensor: Tensor) -> None:
        """Compare a tensor with :func:`check_layout`."""
        check_layout(tensor, self.name, self.dtype, self.device, self.size, self.stride)


class InputChecks:
    """A check of all tensor inputs of a program at once, which has their specs in order.

    The first call, and each call with inputs of a new kind (another tensor subclass, inference
    mode, ``requires_grad``), compares every input in Python; later calls of that kind cost one call
    into torch. No input is kept alive.
    """

    def __init__(self, *specs: TensorSpec) -> None:
        self._specs = specs
        self._guards: tuple[Callable[..., bool], ...] = ()

    def __call__(self, *tensors: torch.Tensor) -> None:
        """Return if every input is as expected.

        Raises:
            InputLayoutError: An input is not a tensor, or has another layout.
            InputCountError: There are too few or too many inputs.
        """
        if len(tensors) == len(self._specs):
            for guard in self._guards:
                if guard(*tensors):
                    return
        self._compare(tensors)

    def _compare(self, tensors: tuple[torch.Tensor, ...]) -> None:
        if len(tensors) != len(self._specs):
            raise errors.InputCountError(expected=len(self._specs), got=len(tensors))
        for tensor, spec in zip(tensors, self._specs, strict=True):
            spec.check(tensor)
            check_form(tensor, spec.name, plain=spec.plain)
        if tensors:
            self._remember(tensors)

    def _remember(self, tensors: tuple[torch.Tensor, ...]) -> None:
        # A guard compares dispatch keys, and with them whether an input is conjugated or negated.
        # Guard the actual strides: those of dimensions of size 1 may differ from the spec.
        known = [(t.shape, t.stride(), s) for t, s in zip(tensors, self._specs, strict=True)]
        guard = tensor_guard(
            tensors,
            [_masked(size, spec.size) for size, _, spec in known],
            [_masked(stride, spec.stride) for _, stride, spec in known],
        )
        if guard is not None:
            self._guards = (guard, *self._guards[: _MAX_GUARDS - 1])


def _masked(actual: Sequence[int], expected: Sequence[int | None]) -> list[int | None]:
    return [None if e is None else a for a, e in zip(actual, expected, strict=True)]


def check_layout(
    tensor: torch.Tensor,
    name: str,
    dtype: torch.dtype,
    device: torch.device | None,
    size: tuple[int | None, ...],
    stride: tuple[int | None, ...],
) -> None:
    """Return if a tensor, which errors call ``name``, has this dtype, device, size and stride.

    Strides, in elements, of dimensions of size 1 and of tensors without elements are free. None
    stands for any device, size or stride, a device without an index for any of its type.

    Raises:
        InputLayoutError: It differs, or is not a tensor.
    """
    try:
        if (
            tensor.dtype is dtype
            and tensor.shape == size
            and tensor.stride() == stride
            and tensor.device == device
        ):
            return
    except AttributeError:
        pass
    spec = TensorSpec(name, dtype, size, stride, device)
    differences = _differences(tensor, spec)
    if differences:
        raise errors.InputLayoutError(
            name=name,
            expected=_described(spec),
            got=_description(tensor),
            difference=" and ".join(differences),
            hint=_hint(tensor, differences, spec),
        )


def check_form(tensor: torch.Tensor, name: str, *, plain: bool) -> None:
    """Return if the memory of an input holds its values as far as the program relies on that.

    It relies on that for complex inputs only if ``plain``: it reads their memory as it is.

    Raises:
        InputLayoutError: It is conjugated or negated lazily, which kernels would not notice.
    """
    if tensor.is_neg() or tensor.is_conj():
        if tensor.is_complex() and not plain:
            return
        way = "conjugated" if tensor.is_conj() else "negated"
        raise errors.InputLayoutError(
            name=name,
            difference="form",
            expected="a tensor stored as it reads",
            got=f"one that is {way} lazily",
            hint=f"pass the tensor's .resolve_{way[: 4 if tensor.is_conj() else 3]}()",
        )


def _differences(tensor: object, spec: TensorSpec) -> list[str]:
    if not isinstance(tensor, torch.Tensor):
        return ["type"]
    if tensor.layout is not torch.strided:
        return ["storage layout"]
    found = []
    if tensor.dtype is not spec.dtype:
        found.append("dtype")
    if spec.device is not None and not _same_device(tensor.device, torch.device(spec.device)):
        found.append("device")
    if tensor.dim() != len(spec.size):
        found.append("rank")
    elif any(want not in (None, have) for have, want in zip(tensor.shape, spec.size, strict=True)):
        found.append("size")
    elif tensor.numel() and not _same_strides(tensor, spec.stride):
        found.append("stride")
    return found


def _same_device(actual: torch.device, expected: torch.device) -> bool:
    return actual.type == expected.type and expected.index in (None, actual.index)


def _same_strides(tensor: torch.Tensor, expected: Sequence[int | None]) -> bool:
    return all(
        size == 1 or want is None or have == want
        for size, have, want in zip(tensor.shape, tensor.stride(), expected, strict=True)
    )


def _number(value: int | None) -> str:
    return "*" if value is None else str(value)


def _described(spec: TensorSpec) -> str:
    sizes, strides = (", ".join(map(_number, row)) for row in (spec.size, spec.stride))
    place = "" if spec.device is None else f" on {spec.device}"
    return f"{str(spec.dtype).removeprefix('torch.')}[{sizes}] with strides [{strides}]{place}"


def _description(tensor: object) -> str:
    if not isinstance(tensor, torch.Tensor):
        return f"a value of type {type(tensor).__name__}"
    if tensor.layout is not torch.strided:
        return f"a tensor stored as {tensor.layout}"
    return _described(TensorSpec("", tensor.dtype, tensor.shape, tensor.stride(), tensor.device))


def _hint(tensor: object, differences: list[str], spec: TensorSpec) -> str:
    advice = _advice(differences, spec)
    if not isinstance(tensor, torch.Tensor) or differences[-1] not in ("size", "stride"):
        return advice
    return f"{_dimensions(tensor, spec)}: {advice}"


def _advice(differences: list[str], spec: TensorSpec) -> str:
    if differences == ["stride"]:
        return "the elements are laid out differently: copy it into a tensor of these strides"
    if differences == ["dtype"]:
        return f"convert it with .to({spec.dtype})"
    if differences == ["device"]:
        return "move it with .to(device)"
    if differences == ["size"] and None in spec.size:
        return "sizes shown as * may vary; the others were fixed when the program was made"
    if differences in (["size"], ["rank"]):
        return "sizes were fixed when the program was made; declare those that vary as dynamic"
    return errors.OTHER_INPUTS


def _dimensions(tensor: torch.Tensor, spec: TensorSpec) -> str:
    """Return the dimensions that differ, in the wording of Inductor's wrappers.

    People search for that wording, and tests match it.
    """
    given = zip(tensor.shape, spec.size, tensor.stride(), spec.stride, strict=True)
    return "; ".join(
        f"expected size {have}=={_number(want)}, stride {step}=={_number(wanted_step)} at dim={dim}"
        for dim, (have, want, step, wanted_step) in enumerate(given)
        if want not in (None, have) or (have != 1 and wanted_step not in (None, step))
    )


def check_symbol(
    name: str, value: int, low: int | None = None, high: int | None = None, what: str = ""
) -> int:
    """Return the value of a symbol if it lies between ``low`` and ``high``, both inclusive.

    ``what`` is the source of the value, for the message: ``"size 0 of 'x'"``.

    Raises:
        SymbolError: It is out of range.
    """
    if (low is None or value >= low) and (high is None or value <= high):
        return value
    left = "" if low is None else f"{low} <= "
    right = "" if high is None else f" <= {high}"
    found = f"{name} is {value}"
    values = f"{found} ({what})" if what else found
    raise errors.SymbolError(relation=f"{left}{name}{right}", values=values)


def check_that(holds: bool, relation: str, **symbols: int) -> None:  # noqa: FBT001
    """Return if a relation such as ``"s0 % 8 == 0"`` holds; the message gives its symbols.

    Raises:
        SymbolError: It does not hold.
    """
    if not holds:
        values = ", ".join(f"{name} is {value}" for name, value in symbols.items())
        raise errors.SymbolError(relation=relation, values=values or "it does not hold")


# Checks of the results of library ops, cheap enough for every call.


def refuse_misaligned(tensor: Tensor, name: str, alignment: int) -> None:
    """Raise AlignmentError for a misaligned tensor."""
    raise errors.AlignmentError(name=name, alignment=alignment, address=tensor.data_ptr())


def check_result(
    tensor: Tensor,
    op: str,
    dtype: torch.dtype,
    size: tuple[int, ...],
    stride: tuple[int, ...],
    device: torch.device | str | None = "cpu",
) -> None:
    """Return if a result of an op has this layout; for results whose sizes vary.

    Strides, in elements, of dimensions of size 1 are free. None stands for any device.

    Raises:
        ResultLayoutError: It differs.
    """
    try:
        place = None if device is None else torch.device(device)
        check_layout(tensor, op, dtype, place, size, stride)
    except errors.InputLayoutError as error:
        found = error.fields
        raise errors.ResultLayoutError(
            op=op, difference=found["difference"], expected=found["expected"], got=found["got"]
        ) from None


def result_check(
    op: str,
    dtype: torch.dtype,
    size: tuple[int, ...],
    stride: tuple[int, ...],
    device: torch.device | str | None = "cpu",
) -> Callable[[Tensor], None]:
    """Return a function that checks one result of an op.

    It costs about 0.1 us while results look alike, half the time of a comparison in Python. It
    raises ResultLayoutError for a tensor of another dtype, device, size or stride. The arguments
    are those of :func:`check_result`.
    """
    expected_device = None if device is None else torch.device(device)

    def same(*_: Tensor) -> bool:
        return False

    def check(tensor: Tensor) -> None:
        if not same(tensor):
            compare(tensor)

    def compare(tensor: Tensor) -> None:
        nonlocal same
        check_result(tensor, op, dtype, size, stride, expected_device)
        guard = tensor_guard([tensor], [tensor.shape], [tensor.stride()])
        if guard is not None:
            same = guard

    return check


def check_length(found: Sequence[object], length: int, op: str) -> None:
    """Return if a list that an op returned, or one inside it, has at least so many items.

    Raises:
        ResultLayoutError: It is shorter.
    """
    if len(found) < length:
        expected = f"a list of at least {length}"
        got = f"one of {len(found)}"
        raise errors.ResultLayoutError(op=op, difference="length", expected=expected, got=got)


def once(check: Callable[..., None]) -> Callable[..., None]:
    """Return a check that runs until it has passed once.

    For programs whose callers do their own checks, as torch.compile's guards do.
    """
    passed = False

    def look(*tensors: Tensor) -> None:
        nonlocal passed
        if not passed:
            check(*tensors)
            passed = True

    return look


def check_number(
    name: str,
    value: object,
    kind: type,
    low: int | None = None,
    high: int | None = None,
    *,
    optional: bool = False,
) -> None:
    """Return if a scalar input is a number of the right type, within its range, both inclusive.

    ``kind`` is ``int``, ``float`` (an int is accepted), ``bool``, or ``type(None)`` for no number.
    If it is ``optional``, None is accepted, since nothing depends on the value.

    Raises:
        InputLayoutError: It has another type.
        SymbolError: It is out of range.
    """
    if value is None and optional:
        return
    given = type(value)
    if given is not kind and not (kind is float and given is int):
        expected = "None" if kind is type(None) else f"a number of type {kind.__name__}"
        raise errors.wrong_type(name, expected, f"a value of type {given.__name__}")
    if isinstance(value, int) and (low is not None or high is not None):
        check_symbol(name, value, low, high)


# Objects of custom classes.

_PREFIX = "__torch__.torch.classes."


class ObjectStateError(ValueError):
    """An object's class does not support serialization."""


def archive_of(value: object) -> bytes:
    """Serialize an object as PyTorch's packages do; equal states give equal bytes.

    Raises:
        ObjectStateError: Its class does not support serialization.
    """
    try:
        found: bytes = torch._C._pickle_save(value)  # noqa: SLF001 - the only way to it
    except (RuntimeError, TypeError) as error:
        raise ObjectStateError(str(error).partition("\n")[0]) from error
    return found


def class_of(value: object) -> str:
    """Return the class of an object as torch registers it, ``namespace::Class``.

    A random number generator has ``torch::Generator``. The result is empty for everything else,
    TorchScript classes included.
    """
    if isinstance(value, torch.Generator):
        return "torch::Generator"
    if not isinstance(value, torch.ScriptObject):
        return ""
    name: str = value._type().qualified_name()  # noqa: SLF001 - the only way to it
    namespace, _, rest = name.removeprefix(_PREFIX).partition(".")
    return f"{namespace}::{rest}" if name.startswith(_PREFIX) and rest else ""


def check_object(value: object, name: str, class_name: str) -> None:
    """Return if a value, which errors call ``name``, is of a custom class ``namespace::Class``.

    Raises:
        InputLayoutError: It is not.
    """
    found = class_of(value)
    if found != class_name:
        got = f"one of class {found}" if found else f"a value of type {type(value).__name__}"
        raise errors.wrong_type(name, f"an object of class {class_name}", got)
