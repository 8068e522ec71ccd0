"""Cases of the corpus that are about types of elements, and about lines inside of regions."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody calls it
from torch import Tensor

from tests.emitters.case import Case, t

INTEGERS = (
    *(torch.int8, torch.int16, torch.int32),
    *(torch.uint8, torch.uint16, torch.uint32, torch.uint64),
)
ITEMS = tuple(
    torch.tensor(value, dtype=getattr(torch, dtype))
    for dtype, value in (
        *(("float64", 1e300), ("float16", -0.5), ("bfloat16", 3.0), ("int32", -(2**31))),
        *(("int16", -300), ("int8", -7), ("uint8", 3), ("bool", True)),
    )
)


def _half_types(x: Tensor, y: Tensor) -> Any:
    mean = (x.float() + y.float()) / 2
    return mean.half(), mean.bfloat16().float()


def _integer_kernels(*numbers: Tensor) -> Any:
    total = torch.stack([each.long() for each in numbers]).sum(0)
    return (-total).char(), (-100 * total).short(), (1000 * total).int(), (200 + total).byte()


def _masks(x: Tensor, m: Tensor) -> Any:
    both = m & (x > 0)
    return both, torch.where(both, x, -1), both.any()


def _while_double(x: Tensor) -> Any:
    return ((1 + x * x).sqrt(),)


def _cond_integers(x: Tensor) -> Any:
    n = len(x)
    moved = x << (3 if n % 2 == 0 else 1)
    numbers = (n // 2, 0.5, True) if n % 2 == 0 else (3 * n, 1.5, n > 4)
    return moved, moved.byte(), *numbers


def _switch(i: Tensor, x: Tensor) -> Any:
    n = len(x)
    if i <= 0:
        return -x.relu(), n
    return (x, 2 * n) if i == 1 else (-n * x if n <= 4 else -2 * n * x, 7)


def _bits(x: Tensor, c: Tensor) -> Any:
    words = x.view(torch.int32)
    parts = torch.view_as_real(c)
    shorts = x.view(torch.int16)[8:12]
    bytes_ = x.view(torch.uint8).view(4, 8)
    return words, words[::2], shorts, bytes_, parts[:, 0], parts.reshape(-1).view(torch.float64)


def _residual(x: Tensor, w1: Tensor, b1: Tensor, w2: Tensor) -> Any:
    return (x + F.relu(torch.addmm(b1, x, w1)) @ w2,)


def _attention(q: Tensor, k: Tensor, v: Tensor) -> Any:
    return (torch.softmax(0.5 * (q @ k.transpose(1, 2)), -1) @ v,)


def _channels_last(x: Tensor, w: Tensor, b: Tensor) -> Any:
    return (F.relu(F.conv2d(x, w, b)),)


def _images() -> list[Any]:
    return [t(2, 3, 6, 6).contiguous(memory_format=torch.channels_last)]


def _topk(x: Tensor, k: int) -> Any:
    values, indices = x.topk(k)
    return values, indices, values


def _foreach(x: Tensor, y: Tensor) -> Any:
    x += 1.5
    y += 1.5
    return (torch.cat([x, x]),)


def _effects(x: Tensor, _: Tensor) -> Any:
    x *= 3
    return (None,)


def _fourier(x: Tensor) -> Any:
    scaled = torch.fft.rfft(x) / 8
    return scaled, torch.fft.irfft(scaled, 8, norm="forward")


def _items(*numbers: Tensor) -> Any:
    z0, z1, z2, u0, u1, u2, u3, b0 = (each.item() for each in numbers)
    ones = torch.ones(int(u3), 2, dtype=torch.float16)
    return ones, z0, z1, z2, u0 + u1 + u2, u3, b0


MORE: dict[str, Case] = {
    "apart": Case(lambda: [t(4), t(4)], lambda a, b: (a.add_(b) + b,)),
    "attention": Case(lambda: [t(2, 5, 4), t(2, 5, 4), t(2, 5, 4)], _attention),
    "bits": Case(lambda: [torch.arange(-2, 2) * 2**33 + 5, t(3, dtype=torch.complex64)], _bits),
    "channels_last": Case(_images, _channels_last, ["w", "b"]),
    "cond_integers": Case(lambda: [torch.tensor([1, -2, 300], dtype=torch.int32)], _cond_integers),
    "effects": Case(lambda: [t(4), torch.tensor(True)], _effects),
    "embedding": Case(
        lambda: [torch.tensor([[0, 7], [3, 3], [1, 2]], dtype=torch.int32)],
        lambda i, table: (table[i].sum(1),),
        ["table"],
    ),
    "foreach": Case(lambda: [t(2, 3), t(3, dtype=torch.float64)], _foreach),
    "fourier": Case(lambda: [t(8, dtype=torch.float64)], _fourier),
    "half_types": Case(lambda: [t(6, dtype=torch.half), t(6, dtype=torch.bfloat16)], _half_types),
    "integer_kernels": Case(lambda: [t(4, dtype=dtype) for dtype in INTEGERS], _integer_kernels),
    "items": Case(lambda: [each.clone() for each in ITEMS], _items),
    "masks": Case(lambda: [t(5), t(5, dtype=torch.bool)], _masks),
    "pools_types": Case(
        lambda: [t(3, dtype=torch.float64), torch.arange(5, dtype=torch.int32)],
        lambda x, n: (-(x < 0).sum()[None], n.sum()[None]),
    ),
    "residual": Case(lambda: [t(5, 6)], _residual, ["w1", "b1", "w2"]),
    "switch": Case(lambda: [torch.tensor([2], dtype=torch.int32), t(5, 2)], _switch),
    "topk": Case(lambda: [t(3, 9, dtype=torch.float64), 4], _topk),
    "transposed_inputs": Case(lambda: [t(5, 3).t()], lambda x: (x.contiguous(), x.t())),
    "while_double": Case(lambda: [torch.tensor(2.0, dtype=torch.float64)], _while_double),
    "while_in_cond": Case(lambda: [t(4)], lambda x: (16 * x,)),
}

MORE_PROBED: dict[str, Case] = {
    "probes_in_regions": Case(lambda: [t(4)], lambda x: (4 * x + 1, 2)),
}
