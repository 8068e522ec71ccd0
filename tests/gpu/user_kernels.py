"""Models that launch Triton kernels of their own, in the ways that users do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import triton
import triton.language as tl
from torch.library import wrap_triton
from triton.tools.tensor_descriptor import TensorDescriptor

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

__all__ = [
    "USERS",
    "over_a_grid_of_the_data",
    "with_a_dependent_launch",
    "with_descriptors",
    "with_epilogue",
    "with_heuristics",
    "with_registers",
    "with_warps_of_its_own",
]

SCALE: tl.constexpr = tl.constexpr(3)


@triton.jit
def scaled(x, offset: tl.constexpr):
    return x * SCALE + offset


@triton.jit
def add(a, b, out, count, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = index < count
    tl.store(out + index, tl.load(a + index, mask) + tl.load(b + index, mask), mask)


@triton.autotune(
    [triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 256}, num_warps=8)], key=["count"]
)
@triton.jit
def tuned(a, b, out, count, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = index < count
    tl.store(out + index, tl.load(a + index, mask) * tl.load(b + index, mask), mask)


@triton.jit
def options(a, b, out, count, factor, HAS: tl.constexpr, KIND: tl.constexpr, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = index < count
    x = scaled(tl.load(a + index, mask), 2) * factor
    if HAS:
        x += tl.load(b + index, mask)
    if KIND == "negative":
        x = -x
    tl.store(out + index, x, mask)


@triton.heuristics({"EVEN": lambda args: args["count"] % args["BLOCK"] == 0})
@triton.jit
def plus_one(a, out, count, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if EVEN:
        tl.store(out + index, tl.load(a + index) + 1)
    else:
        tl.store(out + index, tl.load(a + index, index < count) + 1, index < count)


@triton.jit
def increase(x, count, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + index, tl.load(x + index, index < count) + 1, index < count)


@triton.jit
def rounded(a, out, count, TYPE: tl.constexpr, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = index < count
    tl.store(out + index, tl.load(a + index, mask).to(TYPE), mask)


@triton.jit
def doubled_tiles(a, out, rows, columns, BLOCK: tl.constexpr):
    source = tl.make_tensor_descriptor(a, [rows, columns], [columns, 1], [BLOCK, BLOCK])
    target = tl.make_tensor_descriptor(out, [rows, columns], [columns, 1], [BLOCK, BLOCK])
    at = [tl.program_id(0) * BLOCK, tl.program_id(1) * BLOCK]
    target.store(at, source.load(at) * 2)


@triton.jit
def copied_tiles(source, target, BLOCK: tl.constexpr):
    at = [tl.program_id(0) * BLOCK, tl.program_id(1) * BLOCK]
    target.store(at, source.load(at))


@triton.jit
def product(a, b, out, SIZE: tl.constexpr, BLOCK: tl.constexpr):
    """A product of square matrices, whose loads and products may go to different warps."""
    rows = (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))[:, None] * SIZE
    columns = (tl.program_id(1) * BLOCK + tl.arange(0, BLOCK))[None, :]
    step = tl.arange(0, BLOCK)
    sums = tl.zeros((BLOCK, BLOCK), tl.float32)
    for at in tl.range(0, SIZE, BLOCK, warp_specialize=True):
        x = tl.load(a + rows + (at + step)[None, :])
        y = tl.load(b + (at + step)[:, None] * SIZE + columns)
        sums += tl.dot(x.to(tl.float16), y.to(tl.float16))
    tl.store(out + rows + columns, sums)


def _blocks(count: int) -> Callable[[dict[str, Any]], tuple[int]]:
    return lambda meta: (triton.cdiv(count, meta["BLOCK"]),)


def simple(a: Tensor, b: Tensor) -> Tensor:
    out = torch.empty_like(a)
    wrap_triton(add)[_blocks(a.numel())](a, b, out, a.numel(), BLOCK=128)
    return out * 2


def with_configurations(a: Tensor, b: Tensor) -> Tensor:
    out = torch.empty_like(a)
    wrap_triton(tuned)[_blocks(a.numel())](a, b, out, a.numel())
    return out + 1


def called_differently(a: Tensor, b: Tensor) -> tuple[Tensor, ...]:
    x, y, z = torch.empty_like(a), torch.empty_like(a), torch.empty_like(a.half())
    grid = _blocks(a.numel())
    wrap_triton(options)[grid](a, None, x, a.numel(), 0.5, False, "negative", BLOCK=128)
    wrap_triton(options)[grid](a, b, y, a.numel(), 1.5, True, "positive", BLOCK=256, num_warps=8)
    wrap_triton(options)[grid](a.half(), b, z, a.numel(), 2, True, "positive", BLOCK=256)
    return x + 1, y + 1, z + 1


def with_heuristics(a: Tensor, b: Tensor) -> Tensor:
    out = torch.empty_like(a)
    plus_one[_blocks(a.numel())](a, out, a.numel(), BLOCK=256)
    return out + b


def in_place(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    doubled, other = a * 2, b + 1
    wrap_triton(increase)[_blocks(doubled.numel())](doubled.view(-1), doubled.numel(), BLOCK=128)
    wrap_triton(increase)[_blocks(other.numel())](other, other.numel(), BLOCK=128)
    return doubled.amax(0), other


def of_one_element(a: Tensor, b: Tensor) -> Tensor:
    out = torch.zeros_like(a)
    wrap_triton(add)[(1,)](a, b, out, 1, BLOCK=16)
    return out


def with_a_type(a: Tensor, b: Tensor) -> Tensor:
    out = torch.empty_like(a)
    wrap_triton(rounded)[_blocks(a.numel())](a, out, a.numel(), tl.float16, BLOCK=256)
    return out + b


def with_scratch_memory(a: Tensor, b: Tensor) -> Tensor:
    out = torch.empty_like(a)
    wrap_triton(doubled_tiles)[(a.shape[0] // 16, a.shape[1] // 16)](
        a, out, a.shape[0], a.shape[1], BLOCK=16
    )
    return out + b


def over_a_grid_of_the_data(a: Tensor, b: Tensor) -> Tensor:
    out = torch.zeros_like(a)
    blocks = (b > 0).sum().item()
    torch._check(blocks >= 1)
    add[(blocks,)](a, b, out, a.numel(), BLOCK=64)
    return out


def with_descriptors(a: Tensor, b: Tensor) -> Tensor:
    out = torch.empty_like(a)
    source, target = (TensorDescriptor.from_tensor(x, [16, 16]) for x in (a, out))
    copied_tiles[(a.shape[0] // 16, a.shape[1] // 16)](source, target, BLOCK=16)
    return out + b


# With options that a launch may set since PyTorch 2.15.


def with_registers(a: Tensor, b: Tensor) -> Tensor:
    out = torch.empty_like(a)
    wrap_triton(add)[_blocks(a.numel())](a, b, out, a.numel(), BLOCK=128, maxnreg=64)
    return out * 2


def with_a_dependent_launch(a: Tensor, b: Tensor) -> Tensor:
    out = torch.empty_like(a)
    wrap_triton(add)[_blocks(a.numel())](a, b, out, a.numel(), BLOCK=128, launch_pdl=True)
    return out * 2


def with_epilogue(a: Tensor, b: Tensor) -> Tensor:
    """What Inductor may fuse into the kernel: the store of its result becomes another."""
    out = torch.empty_like(a)
    wrap_triton(add)[_blocks(a.numel())](a, b, out, a.numel(), BLOCK=128)
    return out.relu() * 2


def with_warps_of_its_own(a: Tensor, b: Tensor) -> Tensor:
    out = torch.empty_like(a)
    grid = (a.shape[0] // 32, a.shape[1] // 32)
    wrap_triton(product)[grid](a, b, out, SIZE=a.shape[1], BLOCK=32, num_warps=4)
    return out + 1


#: Each takes two matrices of one size, 64 by 64, on a GPU.
USERS: dict[str, Callable[..., Any]] = {
    "users_kernel": simple,
    "users_kernel_tuned": with_configurations,
    "users_kernel_options": called_differently,
    "users_kernel_in_place": in_place,
    "users_kernel_one_element": of_one_element,
    "users_kernel_type": with_a_type,
    "users_kernel_scratch": with_scratch_memory,
}
