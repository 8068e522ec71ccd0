"""Programs that only multiply matrices, of every layout that tells libraries apart."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

import wrapper_ir as wir

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torch import Tensor

__all__ = ["Multiplied", "Strided", "dynamic_program", "every_layout", "products_program"]

NAMES = {
    torch.bfloat16: "bf16",
    torch.float16: "f16",
    torch.float32: "f32",
    torch.float64: "f64",
}


@dataclass(frozen=True)
class Strided:
    """Sizes and strides of an operand."""

    size: tuple[int, ...]
    stride: tuple[int, ...]

    def filled(self, dtype: torch.dtype) -> Tensor:
        count = 1 + sum((n - 1) * step for n, step in zip(self.size, self.stride, strict=True))
        storage = torch.randn(count, device="cuda").to(dtype)
        return storage.as_strided(self.size, self.stride)


@dataclass(frozen=True)
class Multiplied:
    """One product, of matrices or of rows of them."""

    dtype: torch.dtype
    left: Strided
    right: Strided

    @property
    def op(self) -> str:
        return "mm" if len(self.left.size) == 2 else "bmm"

    def text(self, number: int) -> tuple[list[str], list[str]]:
        """The inputs and the lines of a program with it."""
        name = NAMES[self.dtype]
        inputs, lines = [], []
        for letter, each in (("a", self.left), ("b", self.right)):
            layout = f"{list(each.size)}{{{', '.join(map(str, each.stride))}}}"
            inputs.append(f"input %{letter}{number} : {name}{layout} @cuda:0")
            lines.append(f'  assert_layout %{letter}{number}, "input"')
        size = [*self.left.size[:-1], self.right.size[-1]]
        lines.append(f"  %c{number} = allocate : {name}{size} @cuda:0")
        operands = f"%a{number}, %b{number}, out=out %c{number}"
        lines.append(f"  aten::{self.op}.out({operands}) @cuda:0")
        return inputs, lines


def layouts(rows: int, columns: int) -> list[tuple[int, int]]:
    """Strides: what libraries take as it is, and the last two, which have to be copied."""
    return [(columns, 1), (1, rows), (columns + 8, 1), (1, rows + 3), (2 * columns, 2), (0, 1)]


def every_layout(dtype: torch.dtype) -> Iterator[Multiplied]:
    """Products of operands that lie in every way."""
    for m, k, n in [(16, 512, 1536), (1, 64, 48), (64, 1, 32), (33, 17, 1), (130, 96, 72)]:
        for left, right in itertools.product(layouts(m, k), layouts(k, n)):
            yield Multiplied(dtype, Strided((m, k), left), Strided((k, n), right))
    for count, m, k, n in [(4, 24, 16, 40), (1, 24, 16, 40), (3, 1, 32, 8), (3, 8, 32, 1)]:
        pairs = itertools.product(layouts(m, k), layouts(k, n))
        for number, (left, right) in enumerate(pairs):
            size = (m + 3) * (k + 8) * 2
            step = (0, size, m * k)[number % 3] if left == (k, 1) else size  # one for all; apart
            steps = (step, (k + 3) * (n + 8) * 2)
            yield Multiplied(
                dtype,
                Strided((count, m, k), (steps[0], *left)),
                Strided((count, k, n), (steps[1], *right)),
            )


def products_program(products: Sequence[Multiplied]) -> wir.Program:
    """A program of products, each of two inputs."""
    inputs, lines = [], []
    for number, each in enumerate(products):
        more_inputs, more_lines = each.text(number)
        inputs += more_inputs
        lines += more_lines
    results = ", ".join(f"%c{number}" for number in range(len(products)))
    return wir.parse("\n".join([*HEAD, *inputs, "", *OPS, "", *lines, f"return {results}\n"]))


def dynamic_program(dtype: torch.dtype) -> wir.Program:
    """A product whose sizes and strides are known only in a call."""
    name = NAMES[dtype]
    lines = [
        *(f"symbol s{n} : int [0, inf] hint 16" for n in range(5)),
        f"input %a : {name}[s0, s1]{{s3, s4}} @cuda:0",
        f"input %b : {name}[s1, s2] @cuda:0",
        "",
        *OPS,
        "",
        *(f"  s{n} = size %a, {n}" for n in (0, 1)),
        "  s2 = size %b, 1",
        *(f"  s{n + 3} = stride %a, {n}" for n in (0, 1)),
        '  assert_layout %a, "input"',
        '  assert_layout %b, "input"',
        f"  %c = allocate : {name}[s0, s2] @cuda:0",
        "  aten::mm.out(%a, %b, out=out %c) @cuda:0",
        "return %c\n",
    ]
    return wir.parse("\n".join([*HEAD, *lines]))


HEAD = ["wir 2", "program @products inference logical", ""]
OPS = [
    f"extern aten::{op}.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!)"
    for op in ("mm", "bmm")
]
