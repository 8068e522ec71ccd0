"""What Inductor does at sizes of real models on a GPU, as programs, on a machine without one."""

from __future__ import annotations

from typing import Any

import pytest
import sympy
import torch
import torch._inductor.config
from torch import Tensor
from torch.nn import functional

from tests.frontends.no_gpu import body, program_of
from wrapper_ir.frontends.common.expressions import to_dim

pytestmark = [
    pytest.mark.skipif(not torch.backends.cuda.is_built(), reason="this torch knows no GPU at all"),
]

#: From five million elements on, and 4,096 rows, one kernel reduces rows and columns.
SHAPE = (8192, 768)


def test_parts_of_sums_become_whole() -> None:
    def sums(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        z = x * y
        return z.sum(-1), z.sum(0), (z + 1).sum(0, keepdim=True)

    lines = body(program_of(sums, SHAPE, SHAPE))

    assert lines[1] == "%workspace_0 = allocate : f32[786432]"
    assert "out %workspace_0, 8192, 768) grid [512]" in lines[2]
    assert lines[3:] == [
        "%workspace_0_view = reinterpret %workspace_0 : f32[512, 768]",
        "%buf2 = allocate : f32[768]",
        "aten::sum.IntList_out(%workspace_0_view, [0], out=out %buf2)",
        "%workspace_0_view_1 = reinterpret %workspace_0 : f32[512, 768]+393216",
        "%buf4 = allocate : f32[1, 768]",
        "%buf4_view = reinterpret %buf4 : f32[768]",
        "aten::sum.IntList_out(%workspace_0_view_1, [0], out=out %buf4_view)",
    ]


def test_parts_are_kept_in_float32_and_copied_where_the_whole_is_narrower() -> None:
    def sums(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        z = x.half() * y.half()
        return z.float().sum(-1), z.sum(0), z.prod(0)

    lines = body(program_of(sums, SHAPE, SHAPE))

    assert [line for line in lines if line.startswith("aten::")] == [
        "aten::sum.IntList_out(%workspace_0_view, [0], out=out %buf2_whole)",
        "aten::copy_(out %buf2, %buf2_whole)",
        "aten::prod.int_out(%workspace_0_view_1, 0, out=out %buf4_whole)",
        "aten::copy_(out %buf4, %buf4_whole)",
    ]


def test_parts_of_a_cat_become_whole_in_their_places() -> None:
    def joined(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return torch.cat([(x * y).sum(0), (x + y).sum(0)]), (x * y).sum(-1)

    lines = body(program_of(joined, SHAPE, SHAPE))

    (whole,) = (line.split()[0] for line in lines if line.endswith("allocate : f32[1536]"))
    first, second = (line.split()[0] for line in lines if f"reinterpret {whole} " in line)
    assert [line for line in lines if line.startswith("aten::")] == [
        f"aten::sum.IntList_out(%workspace_0_view, [0], out=out {first})",
        f"aten::sum.IntList_out(%workspace_0_view_1, [0], out=out {second})",
    ]


def _choosing(name: str, backends: str = "ATEN") -> Any:
    """Have Inductor take one of its functions for a product or a convolution, and time nothing."""
    return torch._inductor.config.patch(
        {
            "max_autotune": True,
            "max_autotune_gemm_backends": backends,
            "max_autotune_conv_backends": backends,
            "triton.num_decompose_k_splits": 1,
            "layout_optimization": False,  # with channels last, a convolution is a product at once
            "test_configs.autotune_choice_name_regex": name,
        }
    )


def test_a_bias_of_equal_rows_is_passed_as_a_vector() -> None:
    def linear(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
        return torch.addmm(b.expand(64, 32), x, w)

    with _choosing("bias_addmm"):
        lines = body(program_of(linear, (64, 128), (128, 32), (32,)))

    assert lines[1:] == [
        "%arg0_1_view = reinterpret %arg0_1 : f32[64, 32]{0, 1}",
        "%arg0_1_view_view = reinterpret %arg0_1_view : f32[32]",
        "aten::addmm.out(%arg0_1_view_view, %arg1_1, %arg2_1, beta=1, alpha=1, out=out %buf0)",
    ]


def test_a_convolution_of_pixels_is_a_product() -> None:
    def pixels(x: Tensor, w: Tensor) -> Tensor:
        return functional.conv2d(x.view(2, 16, 8, 8), w.view(32, 16, 1, 1))

    with _choosing("conv1x1_via_mm", "ATEN,TRITON"):
        lines = body(program_of(pixels, (32, 64), (32, 16)))

    (call,) = (line for line in lines if line.startswith("aten::"))
    assert call.startswith("aten::matmul.out(")
    sizes = [line.split(" : ")[1].split("{")[0] for line in lines if " = reinterpret " in line]
    assert sizes[-3:] == ["f32[2, 8, 8, 16]", "f32[16, 32]", "f32[2, 8, 8, 32]"]


def test_a_graph_that_is_chosen_for_a_product_stands_in_its_place() -> None:
    with _choosing("decompose_k|bmm", "ATEN,TRITON"):
        lines = body(program_of(lambda x, w: x @ w, (32, 32768), (32768, 32)))

    (call,) = (line for line in lines if line.startswith("aten::"))
    assert call.startswith("aten::bmm")
    assert "call @triton" in lines[-1]


def test_a_rounded_up_quotient_of_sizes_is_one_division() -> None:
    rows = sympy.Symbol("s0", integer=True, positive=True)

    assert str(to_dim((rows + 15) // 16)) == "FloorDiv(s0 + 15, 16)"
