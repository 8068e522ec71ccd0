"""A tensor in words: layout, statistics in its own precision, and some of its values.

The words are those of docs/debug-printer.md, and the same from every emitter. Nothing here changes
a tensor, and nothing here fails: what cannot be computed is left out.
"""

from __future__ import annotations

import ctypes
import math
import struct
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import torch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

__all__ = ["SHORT_DTYPES", "Statistics", "describe", "describe_layout", "number", "statistics"]

#: Short names of element types, as in the text form of programs.
SHORT_DTYPES: Final[dict[torch.dtype, str]] = {
    dtype: short
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
    if isinstance(dtype := getattr(torch, name, None), torch.dtype)
}

#: Tensors with more elements than this are shown by the first and last of each dimension.
_ALL: Final = 24
_EDGE: Final = 3

#: Element types whose values are all exact in a wider one that torch computes with.
_WIDER: Final[dict[str, torch.dtype]] = {
    "f16": torch.float32,
    "bf16": torch.float32,
    "f8e4m3fn": torch.float32,
    "f8e4m3fnuz": torch.float32,
    "f8e5m2": torch.float32,
    "f8e5m2fnuz": torch.float32,
    "f8e8m0fnu": torch.float32,
    "u16": torch.int64,
    "u32": torch.int64,
    "c32": torch.complex64,
}


@dataclass(frozen=True, slots=True)
class Statistics:
    """What is said of a tensor's values.

    Of complex tensors all numbers are of their real and imaginary parts together. ``minimum``,
    ``maximum``, ``mean`` and ``std`` are of the finite values, and None where there are none.

    Attributes:
        minimum: Exact, in the tensor's own type; None also for types without order.
        maximum: Likewise.
        mean: Computed in float64.
        std: Of the sample (divided by n - 1), in float64; None for fewer than two values.
        nan: How many elements are NaN.
        inf: How many are infinite.
        first_nan: Index of the first NaN, or None.
        first_inf: Index of the first infinite element, or None.
    """

    minimum: float | int | None = None
    maximum: float | int | None = None
    mean: float | None = None
    std: float | None = None
    nan: int = 0
    inf: int = 0
    first_nan: tuple[int, ...] | None = None
    first_inf: tuple[int, ...] | None = None


def describe(name: str, tensor: Tensor) -> str:
    """One line on a tensor: name, layout, statistics, values."""
    parts = [f"{name}:", describe_layout(tensor)]
    values = _values(tensor)
    if values is not None and values.numel():
        parts += _statistics_words(statistics(tensor), tensor.dtype)
        parts.append(_listed(values, tensor.dtype))
    return " ".join(parts)


def describe_layout(tensor: Tensor) -> str:
    """``f32[4, 64]``, with strides and device where they are not the usual ones."""
    short = SHORT_DTYPES.get(tensor.dtype, str(tensor.dtype).removeprefix("torch."))
    text = f"{short}[{', '.join(map(str, tensor.shape))}]"
    if tensor.layout is not torch.strided:
        return f"{text} {str(tensor.layout).removeprefix('torch.')}"
    if not tensor.is_contiguous():
        text += f" stride=[{', '.join(map(str, tensor.stride()))}]"
    if tensor.device.type != "cpu":
        text += f" @{tensor.device}"
    return text


def statistics(tensor: Tensor) -> Statistics:
    """The statistics of a tensor; all counts are zero where values cannot be read."""
    values = _values(tensor)
    if values is None or not values.numel():
        return Statistics()
    if values.is_complex():
        return _of_complex(values)
    if not values.is_floating_point():
        return _of_integers(values)
    return _of_floats(values)


def _of_floats(values: Tensor) -> Statistics:
    nan, inf = values.isnan(), values.isinf()
    finite = values[~(nan | inf)]
    low = high = mean = std = None
    if finite.numel():
        low, high = finite.min().item(), finite.max().item()
        wide = finite.double()
        mean = wide.mean().item()
        std = wide.std().item() if wide.numel() > 1 else None
    counts = int(nan.sum()), int(inf.sum())
    return Statistics(low, high, mean, std, *counts, _first(nan), _first(inf))


def _of_complex(values: Tensor) -> Statistics:
    parts = _of_floats(torch.view_as_real(values))
    nan, inf = values.isnan(), values.isinf()
    counts = int(nan.sum()), int(inf.sum())
    return Statistics(
        parts.minimum,
        parts.maximum,
        parts.mean,
        parts.std,
        *counts,
        _first(nan),
        _first(inf),
    )


def _of_integers(values: Tensor) -> Statistics:
    wide = values.double()
    std = wide.std().item() if wide.numel() > 1 else None
    if values.dtype is torch.uint64:  # torch cannot order these; flipping the top bit keeps order
        signed = values.view(torch.int64) ^ (-(2**63))
        low, high = (int(v.item()) + 2**63 for v in (signed.min(), signed.max()))
        return Statistics(low, high, wide.mean().item(), std)
    return Statistics(int(values.min().item()), int(values.max().item()), wide.mean().item(), std)


def _first(mask: Tensor) -> tuple[int, ...] | None:
    if not mask.any():
        return None
    flat = int(mask.reshape(-1).to(torch.uint8).argmax())
    index = []
    for size in reversed(mask.shape):
        index.append(flat % size)
        flat //= size
    return tuple(reversed(index))


def _values(tensor: Tensor) -> Tensor | None:
    """The tensor's values on the CPU in a type that torch computes with; None if it cannot."""
    short = SHORT_DTYPES.get(tensor.dtype, "")
    if tensor.layout is not torch.strided or tensor.device.type == "meta" or not short:
        return None
    if short == "f4e2m1fnx2":
        return None
    values = tensor.detach()
    if values.is_quantized:
        values = values.int_repr()
    return values.cpu().to(_WIDER.get(short, values.dtype))


def checksum(tensor: Tensor) -> str:
    """CRC-32 of the elements' bytes in row-major order, eight hexadecimal digits."""
    values = tensor.detach().cpu()
    if values.is_quantized:
        values = values.int_repr()
    flat = values.contiguous()
    size = flat.numel() * flat.element_size()
    content = (ctypes.c_char * size).from_address(flat.data_ptr()) if size else b""
    return f"{zlib.crc32(content):08x}"


# Words.


def _statistics_words(found: Statistics, dtype: torch.dtype) -> list[str]:
    words = []
    if found.minimum is not None and found.maximum is not None:
        words += [f"min={number(found.minimum, dtype)}", f"max={number(found.maximum, dtype)}"]
    if found.mean is not None:
        words.append(f"mean={number(found.mean)}")
    if found.std is not None:
        words.append(f"std={number(found.std)}")
    if found.nan:
        words.append(f"nan={found.nan} first={_index(found.first_nan)}")
    if found.inf:
        words.append(f"inf={found.inf} first={_index(found.first_inf)}")
    return words


def _index(index: Sequence[int] | None) -> str:
    return f"({', '.join(map(str, index or ()))})"


def number(value: complex, dtype: torch.dtype | None = None) -> str:
    """A number, with as few digits as tell it from its neighbours in its type.

    Means and the like, which have no type, get six digits.
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
    """The shortest decimal that rounds to the value; to float32 for types that fit in it."""
    wide = dtype in (torch.float64, torch.complex128)
    for digits in range(6, 18):
        text = f"{value:.{digits}g}"
        if _rounded(float(text), wide=wide) == value:
            return text
    return repr(value)


def _rounded(value: float, *, wide: bool) -> float:
    if wide:
        return value
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def _listed(values: Tensor, dtype: torch.dtype, *, shorten: bool | None = None) -> str:
    """The values as nested lists; of large tensors the ends of each dimension.

    Of the last two dimensions three values from each end are shown, of the one before them one, and
    of any further one the first alone: at most 72 numbers.
    """
    if values.dim() == 0:
        return _brief(values.item(), dtype)
    if shorten is None:
        shorten = values.numel() > _ALL
    size = values.shape[0]
    head = tail = _EDGE if values.dim() <= 2 else 1
    if values.dim() > 3:
        tail = 0
    if not shorten or size <= head + tail:
        head, tail = size, 0
    shown = [*range(head), *range(size - tail, size)]
    items = [_listed(values[position], dtype, shorten=shorten) for position in shown]
    if len(items) < size:
        items.insert(head, "...")
    return f"[{', '.join(items)}]"


def _brief(value: complex, dtype: torch.dtype) -> str:
    """A number among many: whole numbers exact, others to six digits."""
    if isinstance(value, (bool, int)) or dtype is torch.bool:
        return number(value, dtype)
    return number(value)
