"""Descriptions of tensors: layout, statistics and some of the values.

docs/debug-printer.md documents the format, which is the same for all emitters. Nothing here changes
a tensor, and nothing raises: a statistic that cannot be computed is left out.
"""

from __future__ import annotations

import ctypes
import math
from typing import TYPE_CHECKING, Final

import torch

from wrapper_ir.runtime.probes.measures import (
    SHORT_DTYPES,
    Statistics,
    index_of_largest,
    readable,
    statistics_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor


#: Tensors with more elements than this show only the ends of each dimension.
_ALL: Final = 24
_EDGE: Final = 3


def describe(name: str, tensor: Tensor) -> str:
    """Return one line about a tensor: name, layout, statistics, values."""
    parts = [f"{name}:", describe_layout(tensor)]
    values = readable(tensor)
    if values is not None and values.numel():
        parts += _statistics_words(statistics_of(values), tensor.dtype)
        parts.append(_listed(values, shorten=values.numel() > _ALL))
    return " ".join(parts)


def describe_layout(tensor: Tensor) -> str:
    """Return ``f32[4, 64]``, with strides if not contiguous and the device if not the CPU."""
    short = SHORT_DTYPES.get(tensor.dtype, str(tensor.dtype).removeprefix("torch."))
    text = f"{short}[{', '.join(map(str, tensor.shape))}]"
    if tensor.layout is not torch.strided:
        return f"{text} {str(tensor.layout).removeprefix('torch.')}"
    if not tensor.is_contiguous():
        text += f" stride=[{', '.join(map(str, tensor.stride()))}]"
    if tensor.device.type != "cpu":
        text += f" @{tensor.device}"
    return text


# Words.


def _statistics_words(stats: Statistics, dtype: torch.dtype) -> list[str]:
    words = []
    if stats.minimum is not None and stats.maximum is not None:
        words += [f"min={number(stats.minimum, dtype)}", f"max={number(stats.maximum, dtype)}"]
    if stats.mean is not None:
        words.append(f"mean={number(stats.mean)}")
    if stats.std is not None:
        words.append(f"std={number(stats.std)}")
    if stats.nan:
        words.append(f"nan={stats.nan} first={_index(stats.first_nan)}")
    if stats.inf:
        words.append(f"inf={stats.inf} first={_index(stats.first_inf)}")
    return words


def _index(index: Sequence[int] | None) -> str:
    return f"({', '.join(map(str, index or ()))})"


def number(value: complex, dtype: torch.dtype | None = None) -> str:
    """Format a number with the fewest digits that identify it in its type.

    Without a type, as for means, it gets six digits.
    """
    if isinstance(value, bool) or dtype is torch.bool:
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return _real(value, dtype)
    sign = "-" if math.copysign(1.0, value.imag) < 0 else "+"
    return f"{_real(value.real, dtype)}{sign}{_real(abs(value.imag), dtype)}i"


def _real(value: float, dtype: torch.dtype | None) -> str:
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return f"{value:.6g}" if dtype is None else _shortest(value, dtype)


def _shortest(value: float, dtype: torch.dtype) -> str:
    """Return the shortest decimal that rounds to the value, in float32 for types that fit in it."""
    rounded = ctypes.c_double if dtype in (torch.float64, torch.complex128) else ctypes.c_float
    for digits in range(6, 18):
        text = f"{value:.{digits}g}"
        if rounded(float(text)).value == value:
            return text
    return repr(value)


def _listed(values: Tensor, *, shorten: bool) -> str:
    """Format values as nested lists: integers exactly, other numbers to six digits.

    In a shortened list, the last two dimensions show three values from each end, the dimension
    before them one from each end, and any further dimension only the first: at most 72 numbers.
    """
    if values.dim() == 0:
        return number(values.item())
    size = values.shape[0]
    head = tail = _EDGE if values.dim() <= 2 else 1
    if values.dim() > 3:
        tail = 0
    if not shorten or size <= head + tail:
        head, tail = size, 0
    shown = [*range(head), *range(size - tail, size)]
    items = [_listed(values[position], shorten=shorten) for position in shown]
    if len(items) < size:
        items.insert(head, "...")
    return f"[{', '.join(items)}]"


# Descriptions of the difference between two tensors, with a tolerance for each element type.


#: Relative and absolute tolerance by element type, as in ``torch.testing.assert_close``. Other
#: types must be equal.
TOLERANCES: Final[dict[torch.dtype, tuple[float, float]]] = {
    torch.float16: (1e-3, 1e-5),
    torch.bfloat16: (1.6e-2, 1e-5),
    torch.float32: (1.3e-6, 1e-5),
    torch.float64: (1e-7, 1e-7),
    torch.complex64: (1.3e-6, 1e-5),
    torch.complex128: (1e-7, 1e-7),
}


def difference(got: Tensor, expected: Tensor, tolerance: tuple[float, float] | None = None) -> str:
    """Describe how ``got`` differs from ``expected``, or return an empty string. NaN equals NaN.

    Args:
        got: A tensor.
        expected: The expected tensor.
        tolerance: Relative and absolute, in place of the type's entry in ``TOLERANCES``.
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
    return (
        f"{count} of {got.numel()} elements differ, most at {_index(place)}: "
        f"{one}, expected {other}"
    )
