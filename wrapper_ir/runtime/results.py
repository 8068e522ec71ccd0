"""Checks of what library ops return, cheap enough to be made on every call."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from wrapper_ir.errors import WrapperIRError
from wrapper_ir.runtime._private import tensor_guard
from wrapper_ir.runtime.checks import check_layout
from wrapper_ir.runtime.errors import InputLayoutError

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

__all__ = [
    "AlignmentError",
    "ResultLayoutError",
    "check_result",
    "once",
    "refuse_misaligned",
    "result_check",
]


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


def refuse_misaligned(tensor: Tensor, name: str, alignment: int) -> None:
    """Raise AlignmentError for a tensor that was found misaligned."""
    raise AlignmentError(name=name, alignment=alignment, address=tensor.data_ptr())


def check_result(
    tensor: Tensor,
    op: str,
    dtype: torch.dtype,
    size: tuple[int, ...],
    stride: tuple[int, ...],
    device: torch.device | str | None = "cpu",
) -> None:
    """Return if a result of an op has this layout; for results whose sizes vary.

    Args:
        tensor: The result.
        op: What an error calls the op.
        dtype: Element type of the result.
        size: Its sizes.
        stride: Its strides in elements; those of dimensions of size 1 are free.
        device: Where it is; None for anywhere.

    Raises:
        ResultLayoutError: It differs.
    """
    try:
        place = None if device is None else torch.device(device)
        check_layout(tensor, op, dtype, place, size, stride)
    except InputLayoutError as error:
        found = error.fields
        raise ResultLayoutError(
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

    It costs about 0.1 us while results look alike, half of what a comparison in Python does. It
    raises ResultLayoutError for a tensor of another dtype, device, size or stride.

    Args:
        op: What an error calls the op.
        dtype: Element type of the result.
        size: Its sizes.
        stride: Its strides in elements; those of dimensions of size 1 are free.
        device: Where it is; None for anywhere.
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


def once(check: Callable[..., None]) -> Callable[..., None]:
    """Return a check that looks until it has passed once, and never again.

    For programs whose callers look themselves, as torch.compile's guards do.
    """
    passed = False

    def look(*tensors: Tensor) -> None:
        nonlocal passed
        if not passed:
            check(*tensors)
            passed = True

    return look
