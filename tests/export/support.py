"""What the tests of exports share: a captured model, and a program written by hand."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import torch

import wrapper_ir as wir

if TYPE_CHECKING:
    from pathlib import Path

BROKEN = """\
extern "C" void kernel(const float* x, float* y, const int64_t n)
{
    for (int64_t i = 0; i < n; ++i) y[i] = nonsense(x[i]);
}
"""
PLAIN = "#include <cstdint>\n" + BROKEN.replace("nonsense(x[i])", "x[i] + 1.0f")


class Nested(torch.nn.Module):
    """Takes a keyword, returns a tree; ties two weights, has a buffer and small parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(8, 8)
        self.second = torch.nn.Linear(8, 8)
        self.second.weight = self.first.weight
        self.register_buffer("scale", torch.arange(8.0))

    def forward(self, x: torch.Tensor, *, shift: torch.Tensor) -> dict[str, Any]:
        hidden = torch.relu(self.first(x)) * self.scale
        return {"hidden": hidden, "rest": (self.second(hidden) + shift, [x + 1.0])}


def nested() -> tuple[Nested, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    return Nested().eval(), torch.randn(4, 8), torch.randn(8)


@cache
def captured(isa: str = "native") -> wir.Program:
    model, x, shift = nested()
    return wir.capture(model, (x,), {"shift": shift}, isa=isa)


@cache
def plus_one(code: str = PLAIN, isa: str = "", extra: int = 0) -> wir.Program:
    """A program of a kernel, and ``extra`` more that differ by a number; without constants."""
    b = wir.Builder("plus_one")
    value = b.input("x", "f32", (4,))
    for index in range(extra + 1):
        text = code if index == 0 else code.replace("1.0f", f"{index + 1}.0f")
        kernel = b.cpp_kernel(
            f"plus_{index}",
            text,
            isa=isa,
            reads=[("x", "f32")],
            writes=[("y", "f32")],
            scalars=["n"],
        )
        out = b.allocate("f32", (4,))
        b.call(kernel, value, out, 4)
        value = out
    b.returns(value)
    return b.build()


def run(library: Path, *inputs: torch.Tensor) -> list[torch.Tensor]:
    """Run a library by torch's own runner."""
    runner = torch._C._aoti.AOTIModelContainerRunnerCpu(str(library), 1)
    results: list[torch.Tensor] = runner.run(list(inputs))
    return results
