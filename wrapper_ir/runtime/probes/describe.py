"""Descriptions of tensors: layout, statistics and some of the values.

docs/debug-printer.md documents the format, which is the same for all emitters. Nothing here changes
a tensor, and nothing raises: a statistic that cannot be computed is left out. Extremes are exact.
Moments are computed in float64 chunk by chunk, so that a large tensor is read once and never copied
as a whole.
"""

from __future__ import annotations

import ctypes
import dataclasses
import math
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import torch

from wrapper_ir.devices import kind_of
from wrapper_ir.runtime.apart import extent

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

    The tolerance, relative and absolute, is by default the type's entry in ``TOLERANCES``.
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


#: Short names of element types, as in the text form of programs.
SHORT_DTYPES: Final[dict[torch.dtype, str]] = {
    torch_type: short
    for name, short in (
        *(("float64", "f64"), ("float32", "f32"), ("float16", "f16"), ("bfloat16", "bf16")),
        *(("float8_e4m3fn", "f8e4m3fn"), ("float8_e4m3fnuz", "f8e4m3fnuz")),
        *(("float8_e5m2", "f8e5m2"), ("float8_e5m2fnuz", "f8e5m2fnuz")),
        *(("float8_e8m0fnu", "f8e8m0fnu"), ("float4_e2m1fn_x2", "f4e2m1fnx2")),
        *(("complex32", "c32"), ("complex64", "c64"), ("complex128", "c128")),
        *(("int64", "i64"), ("int32", "i32"), ("int16", "i16"), ("int8", "i8")),
        *(("uint64", "u64"), ("uint32", "u32"), ("uint16", "u16"), ("uint8", "u8")),
        *(("bool", "bool"), ("qint32", "qi32"), ("qint8", "qi8"), ("quint8", "qu8")),
    )
    for torch_type in [getattr(torch, name, None)]
    if isinstance(torch_type, torch.dtype)
}

#: Wider types that torch can compute with and that represent all values exactly.
_WIDER: Final[dict[str, torch.dtype]] = {
    **dict.fromkeys(("f8e4m3fn", "f8e4m3fnuz", "f8e5m2", "f8e5m2fnuz", "f8e8m0fnu"), torch.float32),
    **dict.fromkeys(("u16", "u32"), torch.int64),
    "c32": torch.complex64,
}

_PLAIN: Final = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
"""Types whose extremes accelerators compute and float64 represents exactly."""

#: Elements of a chunk. In float64 it fits the private cache of a core.
_PIECE: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class Statistics:
    """Statistics of a tensor's values.

    For complex tensors, extremes and moments cover real and imaginary parts together. ``minimum``,
    ``maximum``, ``mean`` and ``std`` cover the finite values and are None if there are none.

    Attributes:
        minimum: The exact minimum, in the tensor's own type; None for types that torch cannot read.
        maximum: The exact maximum, likewise.
        mean: The mean, computed in float64.
        std: The sample standard deviation (divided by n - 1), in float64; None for fewer than two
            values.
        nan: The number of NaN elements.
        inf: The number of infinite elements.
        first_nan: The index of the first NaN, or None.
        first_inf: The index of the first infinite element, or None.
    """

    minimum: float | int | None = None
    maximum: float | int | None = None
    mean: float | None = None
    std: float | None = None
    nan: int = 0
    inf: int = 0
    first_nan: tuple[int, ...] | None = None
    first_inf: tuple[int, ...] | None = None


def statistics(tensor: Tensor) -> Statistics:
    """Return the statistics of a tensor, or empty ones if its values cannot be read."""
    values = readable(tensor)
    return Statistics() if values is None else statistics_of(values)


def statistics_of(values: Tensor) -> Statistics:
    """Return the statistics of a result of :func:`readable`."""
    if not values.numel():
        return Statistics()
    stats, finite = _extremes(values)
    mean, std = _moments(finite)
    return dataclasses.replace(stats, mean=mean, std=std)


def value_ranges(tensors: Sequence[Tensor]) -> list[Statistics]:
    """Return the statistics of tensors without ``mean`` and ``std``, at a fraction of the cost.

    Accelerators compute the extremes of their own tensors, with one synchronization per device. A
    tensor is copied to the host only if it holds NaN or inf.
    """
    ranges = _ranges_found_there(tensors)
    return [
        Statistics(*limits) if limits is not None else _value_range(tensor)
        for tensor, limits in zip(tensors, ranges, strict=True)
    ]


def _value_range(tensor: Tensor) -> Statistics:
    values = readable(tensor)
    return Statistics() if values is None or not values.numel() else _extremes(values)[0]


def _ranges_found_there(tensors: Sequence[Tensor]) -> list[tuple[float, float] | None]:
    """Return the extremes of finite tensors on accelerators, and None for all other tensors."""
    limits: dict[torch.device, list[Tensor]] = {}
    for tensor in filter(_has_limits_there, tensors):
        pair = torch.stack(torch.aminmax(tensor.detach())).double()
        limits.setdefault(tensor.device, []).append(pair)
    values = {device: iter(torch.stack(pairs).tolist()) for device, pairs in limits.items()}
    ranges: list[tuple[float, float] | None] = []
    for tensor in tensors:
        is_known = _has_limits_there(tensor)
        low, high = next(values[tensor.device]) if is_known else (math.nan, math.nan)
        is_finite = math.isfinite(low) and math.isfinite(high)
        ranges.append((low + 0.0, high + 0.0) if is_finite else None)
    return ranges


def _has_limits_there(tensor: Tensor) -> bool:
    is_plain = tensor.dtype in _PLAIN and tensor.layout is torch.strided and not tensor.is_neg()
    return kind_of(tensor.device.type).is_accelerator and is_plain and tensor.numel() > 0


def readable(tensor: Tensor) -> Tensor | None:
    """Return the values on the CPU in a type that torch computes with, or None if impossible."""
    short = SHORT_DTYPES.get(tensor.dtype, "")
    if tensor.layout is not torch.strided or tensor.device.type == "meta" or not short:
        return None
    if short == "f4e2m1fnx2":
        return None
    values = tensor.detach()
    if values.is_quantized:
        values = values.int_repr()
    values = values.resolve_conj().resolve_neg().cpu()
    return values.to(_WIDER.get(short, values.dtype))


def _extremes(values: Tensor) -> tuple[Statistics, Tensor]:
    """Return all statistics but the moments, and the finite values to compute those from."""
    if values.is_complex():
        parts, finite = _extremes(torch.view_as_real(values))
        if not (parts.nan or parts.inf):
            return parts, finite
        counts = _not_finite(values.isnan(), values.isinf())
        low, high = parts.minimum, parts.maximum
        return dataclasses.replace(counts, minimum=low, maximum=high), finite
    if values.dtype is torch.uint64:  # torch cannot compare these; flipping the top bit keeps order
        low, high = _limits(values.view(torch.int64) ^ (-(2**63)))
        return Statistics(int(low) + 2**63, int(high) + 2**63), values
    low, high = _limits(values)
    if not values.is_floating_point():
        return Statistics(int(low), int(high)), values
    if math.isfinite(low) and math.isfinite(high):
        return Statistics(low + 0.0, high + 0.0), values  # never -0.0
    nan, inf = values.isnan(), values.isinf()
    stats = _not_finite(nan, inf)
    finite = values[~(nan | inf)]
    if finite.numel():
        low, high = _limits(finite)
        stats = dataclasses.replace(stats, minimum=low + 0.0, maximum=high + 0.0)
    return stats, finite


def _limits(values: Tensor) -> tuple[float, float]:
    low, high = torch.aminmax(values)
    return low.item(), high.item()


def _not_finite(nan: Tensor, inf: Tensor) -> Statistics:
    return Statistics(
        nan=int(nan.sum()), inf=int(inf.sum()), first_nan=_first(nan), first_inf=_first(inf)
    )


def _first(mask: Tensor) -> tuple[int, ...] | None:
    if not mask.any():
        return None
    return index_of_largest(mask.to(torch.uint8))


def index_of_largest(values: Tensor) -> tuple[int, ...]:
    """Return the index of the largest element; among equal ones, the first in row-major order."""
    return tuple(map(int, torch.unravel_index(values.argmax(), values.shape)))


def _moments(values: Tensor) -> tuple[float | None, float | None]:
    """Return mean and standard deviation, combined from chunks (Chan, Golub and LeVeque)."""
    flat = values.reshape(-1)
    total = flat.numel()
    if not total:
        return None, None
    buffer = torch.empty(min(total, _PIECE), dtype=torch.float64, device="cpu")
    count, mean, squares = 0, 0.0, 0.0
    for start in range(0, total, _PIECE):
        piece = flat[start : start + _PIECE]
        wide = buffer[: piece.numel()].copy_(piece)
        own = wide.mean().item()
        own_squares = wide.var().item() * (len(wide) - 1) if len(wide) > 1 else 0.0
        apart = own - mean
        together = count + len(wide)
        squares += own_squares + apart * apart * (count * len(wide) / together)
        mean = own if not count else mean + apart * (len(wide) / together)
        count = together
    return mean, math.sqrt(squares / (total - 1)) if total > 1 else None


def checksum(tensor: Tensor) -> str:
    """Return the CRC-32 of the elements' bytes in row-major order, as eight hexadecimal digits."""
    values = tensor.detach().cpu().resolve_conj().resolve_neg()
    if values.is_quantized:
        values = values.int_repr()
    flat = values.contiguous()
    size = flat.numel() * flat.element_size()
    content = (ctypes.c_char * size).from_address(flat.data_ptr()) if size else b""
    return f"{zlib.crc32(content):08x}"


def private_copy(tensor: Tensor) -> Tensor:
    """Copy a tensor to the CPU with its layout, in a minimal storage with zeros in its gaps.

    Saving a view would save its whole storage, and gaps hold arbitrary bytes. A tensor with
    expanded dimensions becomes contiguous.
    """
    detached = tensor.detach().cpu()
    if detached.is_quantized or detached.layout is not torch.strided:
        return detached.clone()
    if detached.dtype is torch.float4_e2m1fn_x2:  # torch cannot copy these
        return private_copy(detached.view(torch.uint8)).view(detached.dtype)
    sizes = zip(detached.stride(), detached.shape, strict=True)
    if any(step == 0 for step, size in sizes if size > 1):
        return detached.clone(memory_format=torch.contiguous_format)
    nbytes = extent(detached)
    make = torch.empty if nbytes == detached.numel() * detached.element_size() else torch.zeros
    content = make(nbytes, dtype=torch.uint8, device="cpu")
    copy = content.view(detached.dtype).as_strided(detached.shape, detached.stride())
    return copy.copy_(detached)
