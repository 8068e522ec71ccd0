"""Checks as ops: they survive tracing, dead-code elimination and export, and cost one call each.

They run the same code, and raise the same errors, as the checks in emitted Python. Under tracing
they hold what is known against what is wanted, and tell torch what follows for the rest
(``torch._check``), so that symbolic sizes are related as the program says.

What is expected of tensors is given as JSON, parsed once: ``["x", "float32", [8, 8], [8, 1],
"cpu"]``, with ``null`` for a size or stride that may be anything.
"""

from __future__ import annotations

import functools
import json
from typing import TYPE_CHECKING, Any, Final

import torch

from wrapper_ir.emitters.fx import library
from wrapper_ir.errors import WrapperIRError
from wrapper_ir.runtime import (
    InputChecks,
    SymbolError,
    TensorSpec,
    check_layout,
    check_result,
    refuse_misaligned,
    result_check,
)
from wrapper_ir.runtime.scalars import check_number

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

    from wrapper_ir.lines.layout import Layout


# Errors of emitted graphs.


class KernelDeviceError(WrapperIRError):
    """A C++ kernel was called with a tensor that is not in the host's memory.

    Fields: ``kernel`` and ``device``.
    """

    code = "WIR2301"
    template = "kernel '{kernel}' is a C++ function: it cannot take a tensor on {device}"


_KINDS: Final = {"int": int, "float": float, "bool": bool, "none": type(None)}


def spec_of(name: str, layout: Layout, *, anywhere: bool = False) -> list[object]:
    """Return the known parts of a layout, for JSON; ``anywhere`` leaves its device open."""

    def known(values: Sequence[object]) -> list[int | None]:
        return [value if isinstance(value, int) else None for value in values]

    sizes, strides = known(layout.size), known(layout.stride)
    device = None if anywhere else str(layout.device)
    return [name, layout.dtype.torch_name, sizes, strides, device]


def _parsed(spec: list[Any]) -> TensorSpec:
    name, dtype, size, stride, device = spec
    place = None if device is None else torch.device(device)
    return TensorSpec(name, getattr(torch, dtype), tuple(size), tuple(stride), place)


@functools.lru_cache(maxsize=4096)
def _specs(text: str) -> tuple[TensorSpec, ...]:
    return tuple(map(_parsed, json.loads(text)))


@functools.lru_cache(maxsize=4096)
def _input_checks(text: str) -> InputChecks:
    return InputChecks(*_specs(text))


@functools.lru_cache(maxsize=4096)
def _result_check(text: str) -> Callable[[Tensor], None]:
    (spec,) = _specs(text)
    return result_check(
        spec.name, spec.dtype, _static(spec.size), _static(spec.stride), spec.device
    )


def _static(values: tuple[int | None, ...]) -> tuple[int, ...]:
    return tuple(value for value in values if value is not None)


def _fake_compare(
    tensor: Tensor,
    check: Callable[..., None],
    subject: str,
    spec: tuple[torch.dtype, torch.device | None, Sequence[Any], Sequence[Any]],
) -> None:
    """Compare what is known of a tensor without data; the rest becomes facts about symbols."""
    dtype, device, size, stride = spec
    if _are_known(*tensor.shape, *tensor.stride(), *size, *stride):
        check(tensor, subject, dtype, device, tuple(size), tuple(stride))
        return
    actual = [n if _are_known(n) else 0 for n in tensor.shape]
    sample = torch.empty(actual, dtype=tensor.dtype, device=tensor.device)
    pairs = list(zip(size, tensor.shape, strict=False))
    known = [wanted if _are_known(wanted, given) else None for wanted, given in pairs]
    known += [None] * (len(size) - len(known))
    check(sample, subject, dtype, device, tuple(known), (None,) * len(stride))
    for wanted, given in pairs:
        if wanted is not None and not _are_known(wanted, given):
            library.know(given == wanted)


def _are_known(*numbers: Any) -> bool:
    """Return whether none of the numbers is symbolic; ``None`` stands for any number."""
    return all(n is None or isinstance(n, int) for n in numbers)


def _input_check(
    tensor: Tensor,
    name: str,
    dtype: torch.dtype,
    device: torch.device | None,
    size: Any,
    stride: Any,
) -> None:
    check_layout(tensor, name, dtype, device, size, stride)


def _output_check(
    tensor: Tensor,
    name: str,
    dtype: torch.dtype,
    device: torch.device | None,
    size: Any,
    stride: Any,
) -> None:
    check_result(tensor, name, dtype, size, stride, device)


# check_inputs: all inputs at once, as far as they are fixed.


def _check_inputs(tensors: Sequence[Tensor], specs: str) -> None:
    _input_checks(specs)(*tensors)


def _fake_check_inputs(tensors: Sequence[Tensor], specs: str) -> None:
    for tensor, spec in zip(tensors, _specs(specs), strict=True):
        wanted = (spec.dtype, spec.device, spec.size, spec.stride)
        _fake_compare(tensor, _input_check, spec.name, wanted)


# check_result: a result of an op whose layout is fixed.


def check_fixed_result(tensor: Tensor, spec: str) -> None:
    """Compare a tensor's metadata with what is expected."""
    _result_check(spec)(tensor)


def stride_of(spec: str) -> tuple[int, ...]:
    """The strides that a fixed layout has."""
    (parsed,) = _specs(spec)
    return _static(parsed.stride)


def _fake_check_result(tensor: Tensor, spec: str) -> None:
    (parsed,) = _specs(spec)
    wanted = (parsed.dtype, parsed.device, parsed.size, parsed.stride)
    _fake_compare(tensor, _output_check, parsed.name, wanted)


# check_sizes: an input or result whose layout depends on symbols.


def _check_sizes(
    tensor: Tensor,
    spec: str,
    size: Sequence[int],
    stride: Sequence[int],
    is_input: bool,  # noqa: FBT001 - as the schema has it
) -> None:
    (parsed,) = _specs(spec)
    check = _input_check if is_input else _output_check
    check(tensor, parsed.name, parsed.dtype, parsed.device, tuple(size), tuple(stride))


def _fake_check_sizes(
    tensor: Tensor,
    spec: str,
    size: Sequence[int],
    stride: Sequence[int],
    is_input: bool,  # noqa: FBT001 - as the schema has it
) -> None:
    (parsed,) = _specs(spec)
    check = _input_check if is_input else _output_check
    _fake_compare(tensor, check, parsed.name, (parsed.dtype, parsed.device, size, stride))


# check_alignment.


def _check_alignment(tensor: Tensor, name: str, alignment: int) -> None:
    if tensor.data_ptr() % alignment:
        refuse_misaligned(tensor, name, alignment)


def _fake_check_alignment(tensor: Tensor, name: str, alignment: int) -> None:
    """Tensors without data are nowhere."""


# check_number: the type of a scalar input, and the range of any symbol.


def _check_number(
    value: float | None, name: str, kind: str, low: int | None, high: int | None
) -> None:
    check_number(name, value, _KINDS[kind], low, high)


def _fake_check_number(value: Any, name: str, kind: str, low: int | None, high: int | None) -> None:
    if isinstance(value, (bool, int, float, type(None))):
        check_number(name, value, _KINDS[kind], low, high)
        return
    if low is not None:
        library.know(value >= low)
    if high is not None:
        library.know(value <= high)


# check_that: a relation among symbols.


def _check_that(holds: Any, relation: str, names: Sequence[str], values: Sequence[int]) -> None:
    if not holds:
        pairs = zip(names, values, strict=True)
        text = ", ".join(f"{name} is {value}" for name, value in pairs)
        raise SymbolError(relation=relation, values=text or "it does not hold")


def _fake_check_that(
    holds: Any, relation: str, names: Sequence[str], values: Sequence[int]
) -> None:
    if isinstance(holds, bool):
        _check_that(holds, relation, names, values)
    else:
        library.know(holds)


def _op(schema: str, function: Callable[..., None], fake: Callable[..., None]) -> Any:
    overload = library.define(schema, fake)
    library.implement(schema.partition("(")[0], function, "CompositeExplicitAutograd")
    return overload


CHECK_INPUTS: Final = _op(
    "check_inputs(Tensor[] inputs, str specs) -> ()", _check_inputs, _fake_check_inputs
)
CHECK_RESULT: Final = _op(
    "check_result(Tensor result, str spec) -> ()", check_fixed_result, _fake_check_result
)
CHECK_SIZES: Final = _op(
    "check_sizes(Tensor x, str spec, SymInt[] size, SymInt[] stride, bool is_input) -> ()",
    _check_sizes,
    _fake_check_sizes,
)
CHECK_ALIGNMENT: Final = _op(
    "check_alignment(Tensor x, str name, int alignment) -> ()",
    _check_alignment,
    _fake_check_alignment,
)
CHECK_NUMBER: Final = _op(
    "check_number(Scalar? value, str name, str kind, int? low, int? high) -> ()",
    _check_number,
    _fake_check_number,
)
CHECK_THAT: Final = _op(
    "check_that(Scalar holds, str relation, str[] names, SymInt[] values) -> ()",
    _check_that,
    _fake_check_that,
)
