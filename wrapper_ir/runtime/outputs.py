"""Memory that callers give for results: ``function(*inputs, out=[...])``.

What is given is looked at before the program does anything, as far as sizes are known by then. A
result that the program allocates itself is written there from the beginning; others are copied.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from wrapper_ir.errors import WrapperIRError
from wrapper_ir.runtime.checks import TensorSpec, check_layout
from wrapper_ir.runtime.errors import InputLayoutError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "NoOutError",
    "OutCountError",
    "OutLayoutError",
    "OutOverlapError",
    "Outputs",
    "check_out",
]


class OutCountError(WrapperIRError, TypeError):
    """The argument ``out`` is not a list with an entry for each result.

    Fields: ``expected`` is a number of results, ``got`` says what was given.
    """

    code = "WIR2170"
    template = "out= takes a list with one entry for each of the {expected} results, not {got}"
    default_hint = "an entry is a tensor to write the result to, or None for fresh memory"


class OutLayoutError(WrapperIRError, ValueError):
    """A tensor given for a result does not look like the result.

    Fields: ``name`` such as ``out[0]``, and ``difference``, ``expected`` and ``got`` as of
    InputLayoutError.
    """

    code = "WIR2171"
    template = "{name} has the wrong {difference}: the result is {expected}, given was {got}"
    default_hint = "give a tensor like the one that the program returns without out="


class OutOverlapError(WrapperIRError, ValueError):
    """A tensor given for a result shares memory with something that the program still needs.

    Fields: ``name`` such as ``out[0]``, ``other`` says what it shares memory with.
    """

    code = "WIR2172"
    template = "{name} shares memory with {other}"
    default_hint = "give every result memory of its own"


class NoOutError(WrapperIRError, TypeError):
    """A program was called with ``out=`` that was not made for it.

    Fields: ``program`` is its name.
    """

    code = "WIR2173"
    template = "the program '{program}' was not made to take out="
    default_hint = "make it with the emitter's option out=True: wir.compile(program, out=True)"


def check_out(
    specs: Sequence[TensorSpec | None],
    out: Sequence[Tensor | None],
    others: Sequence[object] = (),
) -> tuple[Tensor | None, ...]:
    """Return what was given for results, if it can be taken.

    Args:
        specs: What each result is, sizes and strides of ``None`` being looked at later; ``None``
            for a result that is no tensor.
        out: What was given.
        others: What must not share memory with it: inputs and constants, those that are tensors.

    Raises:
        OutCountError: It is no list, or not as long as there are results.
        OutLayoutError: A tensor is not like its result, or stands where there is no tensor.
        OutOverlapError: A tensor shares memory with another one, or with an input or constant.
    """
    given: object = out
    if not isinstance(given, (list, tuple)):
        raise OutCountError(expected=len(specs), got=f"a value of type {type(given).__name__}")
    if len(out) != len(specs):
        raise OutCountError(expected=len(specs), got=f"one of {len(out)} entries")
    taken: list[tuple[int, int, str]] = []
    for position, (tensor, spec) in enumerate(zip(out, specs, strict=True)):
        if tensor is None:
            continue
        name = f"out[{position}]"
        if spec is None:
            got = f"a value of type {type(tensor).__name__}"
            hint = "give None for a result that is no tensor"
            raise OutLayoutError(
                name=name, difference="type", expected="no tensor", got=got, hint=hint
            )
        _compare(tensor, name, spec)
        taken.append((*_span(tensor), name))
    _refuse_overlaps(taken, [other for other in others if isinstance(other, Tensor)])
    return tuple(out)


class Outputs:
    """The results of a program whose callers may give memory for them.

    Args:
        *specs: What each result is, as for :func:`check_out`.

    Attributes:
        fresh: What is given where nothing is: an entry of ``None`` for each result.
    """

    def __init__(self, *specs: TensorSpec | None) -> None:
        self._specs = specs
        self.fresh: tuple[Tensor | None, ...] = (None,) * len(specs)

    def given(self, out: Sequence[Tensor | None], *others: object) -> tuple[Tensor | None, ...]:
        """Return what was given; raises what :func:`check_out` raises."""
        return check_out(self._specs, out, others)

    def check(
        self,
        out: tuple[Tensor | None, ...],
        position: int,
        size: tuple[int, ...],
        stride: tuple[int, ...],
    ) -> None:
        """Compare one of them, if there is one, with sizes that are known by now."""
        tensor, spec = out[position], self._specs[position]
        if tensor is not None and spec is not None:
            known = TensorSpec(spec.name, spec.dtype, size, stride, spec.device)
            _compare(tensor, f"out[{position}]", known)

    def put(self, out: tuple[Tensor | None, ...], *results: object) -> tuple[Any, ...]:
        """Return the results, in the memory that was given for them."""
        if out is self.fresh:
            return results
        return tuple(
            result if tensor is None else _put(tensor, f"out[{position}]", result)
            for position, (tensor, result) in enumerate(zip(out, results, strict=True))
        )


def _put(tensor: Tensor, name: str, result: object) -> Tensor:
    """The result in a tensor that was given for it."""
    assert isinstance(result, Tensor), "only tensors are given memory"
    if result.data_ptr() != tensor.data_ptr():
        size, stride = tuple(result.shape), result.stride()
        _compare(tensor, name, TensorSpec(name, result.dtype, size, stride, result.device))
        with torch.no_grad():
            tensor.copy_(result)
    elif not tensor.is_inference():
        # A kernel has written to it; whoever saved its old contents for a backward must know.
        torch.autograd.graph.increment_version(tensor)
    return tensor


def _compare(tensor: Tensor, name: str, spec: TensorSpec) -> None:
    try:
        check_layout(tensor, name, spec.dtype, spec.device, spec.size, spec.stride)
    except InputLayoutError as error:
        found = error.fields
        raise OutLayoutError(
            name=name,
            difference=found["difference"],
            expected=found["expected"],
            got=found["got"],
        ) from None
    if tensor.is_conj() or tensor.is_neg():
        expected, got = "stored plainly", "a view that negates or conjugates"
        raise OutLayoutError(name=name, difference="form", expected=expected, got=got)


def _span(tensor: Tensor) -> tuple[int, int]:
    """The addresses where a tensor's elements begin and end."""
    start = tensor.data_ptr()
    if tensor.numel() == 0:
        return start, start
    pairs = zip(tensor.shape, tensor.stride(), strict=True)
    last = sum((size - 1) * stride for size, stride in pairs)
    return start, start + (last + 1) * tensor.element_size()


def _refuse_overlaps(taken: list[tuple[int, int, str]], others: Sequence[Tensor]) -> None:
    """Raises where a range shares addresses with an earlier one or with another tensor."""
    for position, (start, end, name) in enumerate(taken):
        for other_start, other_end, other in taken[:position]:
            if start < other_end and other_start < end:
                raise OutOverlapError(name=name, other=other)
        for tensor in others:
            if tensor.layout is torch.strided and tensor.data_ptr() < end:
                other_start, other_end = _span(tensor)
                if start < other_end and other_start < end:
                    raise OutOverlapError(name=name, other="an input or constant of the program")
