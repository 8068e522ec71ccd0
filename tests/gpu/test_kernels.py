"""Kernels by hand: what the runtime package makes of Triton's text, and how it launches it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

from wrapper_ir.errors import WrapperIRError
from wrapper_ir.runtime import TritonKernels, current_stream
from wrapper_ir.toolchain import triton

if TYPE_CHECKING:
    from collections.abc import Callable

    from wrapper_ir.toolchain.triton import TritonSource

SCALE = """
import triton
import triton.language as tl

@triton.jit
def scale(source, target, by, count, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = index < count
    tl.store(target + index, tl.load(source + index, mask) * by, mask)
"""

TYPES = {"source": "*fp32:16", "target": "*fp32:16", "by": "fp32", "count": "i32"}


@pytest.fixture
def scale() -> Callable[..., None]:
    kernels = TritonKernels("cuda:0")
    kernels.add("scale", TYPES, SCALE, constants={"BLOCK": 128}, num_warps=2)
    (kernel,) = kernels.load()
    return kernel


def test_it_runs(scale: Callable[..., None]) -> None:
    x, y = torch.randn(1000, device="cuda"), torch.empty(1000, device="cuda")
    scale((8,), current_stream(0), x, y, 2.5, 1000)
    assert torch.equal(y, x * 2.5)


def test_no_blocks_is_no_launch(scale: Callable[..., None]) -> None:
    x, y = torch.randn(4, device="cuda"), torch.zeros(4, device="cuda")
    scale((0,), current_stream(0), x, y, 2.5, 4)
    assert not y.any()


def test_wrong_calls(scale: Callable[..., None]) -> None:
    x, stream = torch.randn(4, device="cuda"), current_stream(0)
    with pytest.raises(TypeError, match="takes 4 arguments after grid and stream"):
        scale((1,), stream, x)
    with pytest.raises(TypeError, match="must be a tensor, not int"):
        scale((1,), stream, 1, x, 1.0, 4)
    with pytest.raises(TypeError, match="must be a grid"):
        scale(1, stream, x, x, 1.0, 4)
    with pytest.raises(ValueError, match="cannot be launched over"):
        scale((-1,), stream, x, x, 1.0, 4)
    with pytest.raises(OverflowError, match="does not fit into 32 bits"):
        scale((1,), stream, x, x, 1.0, 1 << 40)
    with pytest.raises(TypeError, match="must be a number"):
        scale((1,), stream, x, x, "1", 4)
    with pytest.raises(RuntimeError, match="its launch failed"):
        scale((1, 70000), stream, x, x, 1.0, 4)


def test_text_that_is_no_kernel() -> None:
    for text, message in (("x = 1", "no Triton function"), ("def", "its text"), ("1 / 0", "zero")):
        kernels = TritonKernels("cuda:0")
        kernels.add("scale", TYPES, text)
        with pytest.raises(WrapperIRError, match=message):
            kernels.load()


def test_a_parameter_without_type() -> None:
    kernels = TritonKernels("cuda:0")
    kernels.add("scale", TYPES, SCALE)
    with pytest.raises(WrapperIRError, match="'BLOCK' has neither type nor value"):
        kernels.load()


@pytest.mark.parametrize("emitter", ["python", "cpp"])
def test_what_inductor_compiled_is_not_compiled_again(
    emitter: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(source: TritonSource, *_: object, **__: object) -> None:
        raise AssertionError(source.name)

    monkeypatch.setattr(triton, "compile_kernel", fail)
    x, by = torch.randn(513, 70, device="cuda"), float(torch.rand(()))  # a text of its own
    compiled = torch.compile(
        lambda x: ((x * by).sin().sum(1), x.softmax(0)),
        backend="wrapper_ir",
        options={"emitter": emitter},
    )
    total, soft = compiled(x)
    torch.testing.assert_close(total, (x * by).sin().sum(1))
    torch.testing.assert_close(soft, x.softmax(0))
