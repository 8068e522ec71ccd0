"""Differences between two tensors in words, with a tolerance for each element type."""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

from wrapper_ir.runtime.probes.describe import describe_layout, number
from wrapper_ir.runtime.probes.measures import index_of_largest

__all__ = ["TOLERANCES", "difference"]

#: Relative and absolute tolerance by element type, those of ``torch.testing.assert_close``; types
#: that are not listed must be equal.
TOLERANCES: Final[dict[torch.dtype, tuple[float, float]]] = {
    torch.float16: (1e-3, 1e-5),
    torch.bfloat16: (1.6e-2, 1e-5),
    torch.float32: (1.3e-6, 1e-5),
    torch.float64: (1e-7, 1e-7),
    torch.complex64: (1.3e-6, 1e-5),
    torch.complex128: (1e-7, 1e-7),
}


def difference(got: Tensor, expected: Tensor, tolerance: tuple[float, float] | None = None) -> str:
    """Say how ``got`` differs from ``expected``; empty when it does not. NaN equals NaN.

    Args:
        got: A tensor.
        expected: What it should be.
        tolerance: Relative and absolute, instead of the type's in ``TOLERANCES``.
    """
    if got.dtype is not expected.dtype or got.shape != expected.shape:
        return f"is {describe_layout(got)}, expected {describe_layout(expected)}"
    got, expected = got.detach().cpu(), expected.detach().cpu()
    if got.is_quantized:
        got, expected = got.int_repr(), expected.int_repr()
    if got.dtype is torch.float4_e2m1fn_x2:  # torch cannot even copy these
        got, expected = got.view(torch.uint8), expected.view(torch.uint8)
    relative, absolute = tolerance or TOLERANCES.get(got.dtype, (0.0, 0.0))
    if got.dtype not in TOLERANCES:
        return _exact(got, expected)
    if torch.equal(got, expected):
        return ""
    close = torch.isclose(got, expected, rtol=relative, atol=absolute, equal_nan=True)
    if bool(close.all()):
        return ""
    wide = torch.complex128 if got.is_complex() else torch.float64
    apart = (got.to(wide) - expected.to(wide)).abs().nan_to_num(nan=torch.inf)
    apart = torch.where(close, torch.zeros_like(apart), apart)
    return _words(got, expected, apart, int((~close).sum()))


def _exact(got: Tensor, expected: Tensor) -> str:
    if got.dtype.is_floating_point:
        got, expected = got.float(), expected.float()
    same = (got == expected) | ((got != got) & (expected != expected))
    if bool(same.all()):
        return ""
    apart = (got.double() - expected.double()).abs().nan_to_num(nan=torch.inf)
    return _words(
        got, expected, torch.where(same, torch.zeros_like(apart), apart), int((~same).sum())
    )


def _words(got: Tensor, expected: Tensor, apart: Tensor, count: int) -> str:
    place = index_of_largest(apart)
    one, other = (number(t[place].item(), t.dtype) for t in (got, expected))
    where = f"({', '.join(map(str, place))})"
    return f"{count} of {got.numel()} elements differ, most at {where}: {one}, expected {other}"
