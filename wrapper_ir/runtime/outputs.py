"""Memory that callers provide for results: ``function(*inputs, out=[...])``.

It is checked before the program starts, as far as sizes are known by then. A result that the
program allocates itself is computed in place; others are copied, and so are those that a caller on
a GPU wants at an address that kernels cannot store 16 bytes at a time to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import torch
from torch import Tensor

from wrapper_ir.errors import WrapperIRError
from wrapper_ir.runtime.apart import meet, span
from wrapper_ir.runtime.checks import TensorSpec
from wrapper_ir.runtime.errors import InputLayoutError

if TYPE_CHECKING:
    from collections.abc import Sequence


class OutCountError(WrapperIRError, TypeError):
    """The argument ``out`` is not a list with an entry for each result.

    Fields: ``expected`` is the number of results, ``got`` describes the argument.
    """

    code = "WIR2170"
    template = "out= takes a list with one entry for each of the {expected} results, not {got}"
    default_hint = "an entry is a tensor to write the result to, or None for fresh memory"


class OutLayoutError(WrapperIRError, ValueError):
    """A tensor passed in ``out`` does not match its result.

    Fields: ``name`` such as ``out[0]``, and ``difference``, ``expected`` and ``got`` as in
    InputLayoutError.
    """

    code = "WIR2171"
    template = "{name} has the wrong {difference}: the result is {expected}, but got {got}"
    default_hint = "give a tensor like the one that the program returns without out="


class OutOverlapError(WrapperIRError, ValueError):
    """A tensor passed in ``out`` shares memory with a tensor that the program still needs.

    Fields: ``name`` such as ``out[0]``, ``other`` is the tensor that it overlaps.
    """

    code = "WIR2172"
    template = "{name} shares memory with {other}"
    default_hint = "give every result memory of its own"


class NoOutError(WrapperIRError, TypeError):
    """A program that was not made for ``out=`` was called with it.

    Fields: ``program`` is its name.
    """

    code = "WIR2173"
    template = "the program '{program}' was not made to take out="
    default_hint = "make it with the emitter's option out=True: wir.compile(program, out=True)"


_ALIGNMENT: Final = 16
"""The most bytes that kernels of GPUs load and store at a time; as in ``wir/out.h``."""


class Given(tuple[Tensor | None, ...]):
    """For each result the memory that it is computed in; ``out`` has what the caller gave."""

    out: tuple[Tensor | None, ...]

    def __new__(cls, out: Sequence[Tensor | None]) -> Given:
        """Leave out what the program must not compute in."""
        made = super().__new__(cls, (None if _is_odd(each) else each for each in out))
        made.out = tuple(out)
        return made


def _is_odd(tensor: Tensor | None) -> bool:
    return tensor is not None and not tensor.is_cpu and tensor.data_ptr() % _ALIGNMENT != 0


def check_out(
    specs: Sequence[TensorSpec | None], out: Sequence[Tensor | None], others: Sequence[object] = ()
) -> Given:
    """Return ``out`` after checking it with the spec of each result.

    The spec of a result that is not a tensor is ``None``. Sizes and strides of ``None`` are checked
    later. ``others`` are inputs and constants, which must not share memory with it.

    Raises:
        OutCountError: It is not a list, or does not have one entry for each result.
        OutLayoutError: A tensor does not match its result, or the result is not a tensor.
        OutOverlapError: A tensor shares memory with another one, or with an input or constant.
    """
    given: object = out
    if not isinstance(given, (list, tuple)):
        raise OutCountError(expected=len(specs), got=f"a value of type {type(given).__name__}")
    if len(out) != len(specs):
        raise OutCountError(expected=len(specs), got=f"one of {len(out)} entries")
    taken: list[tuple[tuple[int, int], str]] = []
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
        taken.append((span(tensor), name))
    _refuse_overlaps(taken, [other for other in others if isinstance(other, Tensor)])
    return Given(out)


class Outputs:
    """The results of a program, with specs as in :func:`check_out`, and memory for them.

    ``fresh`` is the default argument: ``None`` for each result.
    """

    def __init__(self, *specs: TensorSpec | None) -> None:
        self._specs = specs
        self.fresh: tuple[Tensor | None, ...] = (None,) * len(specs)

    def given(self, out: Sequence[Tensor | None], *others: object) -> Given:
        """Check ``out`` with :func:`check_out` and return it."""
        return check_out(self._specs, out, others)

    def check(
        self,
        out: tuple[Tensor | None, ...],
        position: int,
        size: tuple[int, ...],
        stride: tuple[int, ...],
    ) -> None:
        """Check one entry, if it is a tensor, against sizes that are known by now."""
        tensor, spec = out[position], self._specs[position]
        if tensor is not None and spec is not None:
            known = TensorSpec(spec.name, spec.dtype, size, stride, spec.device)
            _compare(tensor, f"out[{position}]", known)

    def put(self, out: tuple[Tensor | None, ...], *results: object) -> tuple[Any, ...]:
        """Return the results in the provided memory."""
        if not isinstance(out, Given):
            return results
        return tuple(
            result if tensor is None else _put(tensor, f"out[{position}]", result)
            for position, (tensor, result) in enumerate(zip(out.out, results, strict=True))
        )


def _put(tensor: Tensor, name: str, result: object) -> Tensor:
    """Copy the result into its tensor, unless it is already there; return the tensor."""
    assert isinstance(result, Tensor), "only tensors are given memory"
    if result.data_ptr() != tensor.data_ptr():
        size, stride = tuple(result.shape), result.stride()
        _compare(tensor, name, TensorSpec(name, result.dtype, size, stride, result.device))
        with torch.no_grad():
            tensor.copy_(result)
    elif not tensor.is_inference():
        # A kernel has written to it; autograd must notice if the old contents were saved.
        torch.autograd.graph.increment_version(tensor)
    return tensor


def _compare(tensor: Tensor, name: str, spec: TensorSpec) -> None:
    try:
        spec.check(tensor)
    except InputLayoutError as error:
        found = error.fields
        raise OutLayoutError(
            name=name, difference=found["difference"], expected=found["expected"], got=found["got"]
        ) from None
    if tensor.is_conj() or tensor.is_neg():
        expected, got = "stored plainly", "a view that negates or conjugates"
        raise OutLayoutError(name=name, difference="form", expected=expected, got=got)


def _refuse_overlaps(taken: list[tuple[tuple[int, int], str]], others: Sequence[Tensor]) -> None:
    """Raise if a span meets an earlier one or another tensor."""
    for position, (place, name) in enumerate(taken):
        for earlier, other in taken[:position]:
            if meet(place, earlier):
                raise OutOverlapError(name=name, other=other)
        for tensor in others:
            may_meet = tensor.layout is torch.strided and tensor.data_ptr() < place[1]
            if may_meet and meet(place, span(tensor)):
                raise OutOverlapError(name=name, other="an input or constant of the program")
