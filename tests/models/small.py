"""Tiny graphs, one for each thing that Inductor schedules in a way of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn.attention.flex_attention import flex_attention

from tests.models.zoo import Case

__all__ = ["KERNEL_FREE", "WITH_KERNELS", "Small"]

_LIBRARY: Final = torch.library.Library("wir_small", "DEF")
"""Ops from outside: what they return, change and take has no kernel and no shortcut anywhere."""

_OPS: Final[Mapping[str, tuple[Callable[..., Any], Callable[..., Any]]]] = {
    "pair(Tensor x, int n) -> (Tensor, Tensor)": (
        lambda x, n: (x + n, x.sum()),
        lambda x, n: (torch.empty_like(x), x.new_empty(())),
    ),
    "many(Tensor[] xs, int[] n, Tensor? o=None, str s='a', float[]? f=None) -> Tensor[]": (
        lambda xs, n, o=None, s="a", f=None: [x * n[0] + (0 if o is None else o) for x in xs],
        lambda xs, n, o=None, s="a", f=None: [torch.empty_like(x) for x in xs],
    ),
    "change(Tensor(a!) x, Tensor(b!)[] ys) -> Tensor": (
        lambda x, ys: (x.mul_(2), [y.add_(1) for y in ys], x.sum())[2],
        lambda x, ys: x.new_empty(()),
    ),
    "nothing(Tensor x) -> ()": (lambda x: None, lambda x: None),
}
for _schema, (_function, _fake) in _OPS.items():
    _name = _schema.partition("(")[0]
    _LIBRARY.define(_schema)
    _LIBRARY.impl(_name, _function, "CPU")
    torch.library.register_fake(f"wir_small::{_name}", _fake, lib=_LIBRARY)

_ours: Any = torch.ops.wir_small


class _Function(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self._function = function

    def forward(self, *args: Tensor) -> Any:
        return self._function(*args)


@dataclass(frozen=True)
class Small:
    """One tiny graph.

    Attributes:
        name: For test ids.
        model: A function of tensors, or what makes a module.
        arguments: Makes the arguments.
        config: What of Inductor's configuration is changed.
        training: Whether the backward is compared too.
    """

    name: str
    model: Callable[..., Any]
    arguments: Callable[[], tuple[Any, ...]]
    config: Mapping[str, Any] = field(default_factory=dict)
    training: bool = False

    @property
    def case(self) -> Case:
        """The graph as the harness takes it."""

        def build(batch: int) -> tuple[nn.Module, tuple[object, ...]]:
            made = self.model() if isinstance(self.model, type) else _Function(self.model)
            return made, self.arguments()

        return Case(self.name, build)

    def __str__(self) -> str:
        return self.name


def _square(dtype: torch.dtype = torch.float32, n: int = 4) -> Callable[[], tuple[Tensor, ...]]:
    return lambda: (torch.randn(n, n, dtype=dtype),)


# Graphs of library calls alone, which are cheap.


def complex_numbers(x: Tensor) -> Any:
    return x * 2 + 1, x @ x.t(), x.abs().clone(), torch.view_as_real(x).clone()


def parts_of_complex(x: Tensor) -> Any:
    first, *rest = x.chunk(3)
    return first, x.split([1, 3], 1), [part * 2 for part in rest]


def int8_weights(x: Tensor, weight: Tensor, scales: Tensor) -> Any:
    return torch.ops.aten._weight_int8pack_mm(x, weight, scales)


def int4_weights(x: Tensor, weight: Tensor, scales: Tensor) -> Any:
    return torch.ops.aten._weight_int4pack_mm_for_cpu(x, weight, 32, scales)


def _int4_arguments() -> tuple[Tensor, ...]:
    plain = torch.randint(0, 16, (64, 64), dtype=torch.int32)
    packed = torch.ops.aten._convert_weight_to_int4pack_for_cpu(plain, 2)
    return torch.randn(4, 64).bfloat16(), packed, torch.randn(2, 64, 2).bfloat16()


def float8_product(x: Tensor) -> Any:
    low = x.view(torch.float8_e4m3fn)
    scale = torch.ones(())
    return torch._scaled_mm(low, low.t(), scale, scale, out_dtype=torch.float32)


def quantised(x: Tensor) -> Any:
    return torch.quantize_per_tensor(x, 0.1, 10, torch.quint8).int_repr()


def custom_ops(x: Tensor, y: Tensor) -> Any:
    one, total = _ours.pair(x, 3)
    first, second = _ours.many([one, y], [2, 3], y, s="q", f=[1.0])
    _ours.nothing(first)
    return one, total, first, second


def custom_mutation(x: Tensor, y: Tensor) -> Any:
    return _ours.change(x, [y[1:], y.new_empty(0)])


def fallback_random(x: Tensor) -> Any:
    return (
        torch.rand(5),
        torch.randperm(7),
        torch.bernoulli(x.abs()),
        x.normal_(),
        x.bernoulli_(0.3),
    )


def sorts(x: Tensor) -> Any:
    return x.sort(), x.topk(2), x.kthvalue(2), x.median(1), x.mode(1), x.logcumsumexp(0)


class PackedLinear(nn.Module):
    """A linear layer, whose weight oneDNN packs when parameters are frozen."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 8).bfloat16()

    def forward(self, x: Tensor) -> Any:
        return self.linear(x)


KERNEL_FREE: Final = (
    Small("complex_numbers", complex_numbers, _square(torch.complex64)),
    Small("parts_of_complex", parts_of_complex, _square(torch.complex64)),
    Small(
        "int8_weights",
        int8_weights,
        lambda: (
            torch.randn(4, 64).bfloat16(),
            torch.randint(-128, 127, (32, 64), dtype=torch.int8),
            torch.randn(32).bfloat16(),
        ),
    ),
    Small("int4_weights", int4_weights, _int4_arguments),
    Small("quantised", quantised, _square()),
    Small("custom_ops", custom_ops, lambda: (torch.randn(4, 4), torch.randn(4, 4))),
    Small("custom_mutation", custom_mutation, lambda: (torch.randn(4), torch.randn(4, 4))),
    Small("sorts", sorts, _square()),
    Small(
        "packed_linear",
        PackedLinear,
        lambda: (torch.randn(4, 16).bfloat16(),),
        {"freezing": True},
    ),
)


# Graphs with kernels.


def dtypes(x: Tensor, low: Tensor) -> Any:
    half = x.half().sin()
    return half, x.to(torch.bfloat16) + 1, low.float() + 1, x.to(torch.float8_e5m2), x > 0, ~(x > 0)


def dtype_views(x: Tensor) -> Any:
    y = x + 1
    return (
        y.view(torch.int32) + 1,
        y.view(torch.int16),
        x[2:].view(torch.int64),
        y.view(torch.int64),
    )


def overlapping(x: Tensor) -> Any:
    window = x.as_strided((4, 5), (1, 1))
    return window * 2, window.sum()


def aliased(x: Tensor) -> Any:
    y = x + 1
    return x, x[1:], x.t(), y, y, y[0]


def scatters(x: Tensor, index: Tensor) -> Any:
    put = x.index_put((index[0],), x[0], accumulate=True)
    masked = x.clone()
    masked[masked > 0] = 7
    return put, masked, x.scatter_add(1, index, x), x.scatter_reduce(1, index, x, "prod")


def foreach(x: Tensor, y: Tensor) -> Any:
    return torch._foreach_add([x, y], 1.0), torch._foreach_mul([x, y], 2.0)


def dropout(x: Tensor) -> Any:
    return torch.nn.functional.dropout(x, 0.4), torch.rand(3), torch.randn_like(x)


def numbers(x: Tensor) -> Any:
    return None, x + 1, 3, True, 2.5, x * torch.tensor(2.0), torch.tensor([1, 2, 3])


def written_parts(x: Tensor, y: Tensor) -> Any:
    parts = x.clone().unbind(0)
    parts[1].mul_(2)
    return torch.diagonal_scatter(x, y, 1), parts[1:], torch.gradient(x)[0]


def attention(q: Tensor, k: Tensor, v: Tensor) -> Any:
    shifted = flex_attention(q, k, v, score_mod=lambda score, b, h, i, j: score + (i - j) * 0.1)
    return shifted, nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)


class Feed(nn.Module):
    """Two linear layers with what may be fused with them."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(32, 64), nn.Linear(64, 32)

    def forward(self, x: Tensor) -> Any:
        return self.down(self.up(x).relu()) + x


class Convolutions(nn.Module):
    """Convolutions with what oneDNN fuses with them."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.second, self.back = nn.Conv2d(4, 4, 3, padding=1), nn.ConvTranspose2d(4, 4, 2)

    def forward(self, x: Tensor) -> Any:
        y = self.norm(self.first(x)).relu()
        z = (self.second(y) + y).relu()
        return nn.functional.hardswish(self.back(z)), self.second(z).sigmoid()


class PackedLayers(nn.Module):
    """A convolution and a linear layer in float32; oneDNN packs the one, MKL the other."""

    def __init__(self) -> None:
        super().__init__()
        self.model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Linear(6, 5))

    def forward(self, x: Tensor) -> Any:
        return self.model(x)


class Autocast(nn.Module):
    """Layers of which some run in bfloat16, with dropout and statistics that change."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x: Tensor) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = self.linear(x)
        return torch.nn.functional.dropout(self.norm(y.float()), 0.2)


WITH_KERNELS: Final = (
    Small(
        "fallback_random", fallback_random, lambda: (torch.rand(4, 4),), {"fallback_random": True}
    ),
    Small(
        "float8_product", float8_product, lambda: (torch.randint(0, 64, (16, 16)).to(torch.uint8),)
    ),
    Small("dtypes", dtypes, lambda: (torch.randn(4, 4), torch.randn(4).to(torch.float8_e4m3fn))),
    Small("dtype_views", dtype_views, lambda: (torch.randn(4, 8),)),
    Small("overlapping", overlapping, lambda: (torch.randn(10),)),
    Small("aliased", aliased, _square()),
    Small("scatters", scatters, lambda: (torch.randn(5, 5), torch.randint(0, 5, (5, 5)))),
    Small(
        "foreach",
        foreach,
        lambda: (torch.randn(4), torch.randn(3, 3)),
        {"combo_kernels": True},
    ),
    Small(
        "written_parts",
        written_parts,
        lambda: (torch.randn(4, 4, dtype=torch.complex64), torch.randn(3, dtype=torch.complex64)),
    ),
    Small("packed_layers", PackedLayers, lambda: (torch.randn(2, 3, 8, 8),), {"freezing": True}),
    Small("attention", attention, lambda: tuple(torch.randn(1, 2, 32, 16) for _ in range(3))),
    Small(
        "generated_products",
        Feed,
        lambda: (torch.randn(16, 32),),
        {"freezing": True, "max_autotune": True, "max_autotune_gemm_backends": "CPP"},
    ),
    Small("convolutions", Convolutions, lambda: (torch.randn(2, 3, 8, 8),), {"freezing": True}),
    Small("partitions", lambda x: (x.sin() @ x).softmax(0), _square(), {"graph_partition": True}),
    Small("dropout", dropout, _square()),
    Small("numbers", numbers, _square()),
    Small("autocast", Autocast, lambda: (torch.randn(6, 4),), training=True),
)
