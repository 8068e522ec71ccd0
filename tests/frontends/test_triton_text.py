"""What is left of Inductor's text of a Triton kernel."""

from __future__ import annotations

from wrapper_ir.frontends.inductor.triton_tuning import plain_triton, with_types

TEXT = """
import triton
import triton.language as tl

from torch._inductor.runtime import triton_helpers, triton_heuristics
from torch._inductor.runtime.triton_helpers import libdevice, math as tl_math
from torch._inductor.runtime.hints import AutotuneHint, ReductionHint
triton_helpers.set_driver_to_gpu()

@triton.jit
def _helper_add(a, b):
    return a + b

@triton_heuristics.pointwise(
    size_hints={'x': 64},
    filename=__file__,
    triton_meta={'signature': {'in_ptr0': '*fp32'}},
)
@triton.jit
def triton_poi_fused_add_0(in_ptr0, xnumel, XBLOCK : tl.constexpr):
    # triton_heuristics stays in a remark
    xnumel = 64
    tl.store(in_ptr0, _helper_add(1, 2))
"""

PLAIN = """\
import triton
import triton.language as tl

from torch._inductor.runtime import triton_helpers
from torch._inductor.runtime.triton_helpers import libdevice, math as tl_math

@triton.jit
def _helper_add(a, b):
    return a + b

@triton.jit
def triton_poi_fused_add_0(in_ptr0, xnumel, XBLOCK : tl.constexpr):
    # triton_heuristics stays in a remark
    xnumel = 64
    tl.store(in_ptr0, _helper_add(1, 2))
"""


def test_what_tunes_is_taken_off() -> None:
    assert plain_triton(TEXT, "triton_poi_fused_add_0") == PLAIN


def test_plain_text_stays() -> None:
    assert plain_triton(PLAIN, "triton_poi_fused_add_0") == PLAIN


def test_types_of_tritons_go_into_the_text() -> None:
    text = """\
import triton.language as tl

@triton.jit
def other(T: tl.constexpr):
    return T

@triton.jit
def rounded(a, out, T: tl.constexpr, BLOCK: tl.constexpr = 64):
    tl.store(out, tl.load(a).to(T))

LAST = 1
"""
    assert with_types(text, "rounded", {"T": "triton.language.float16"}) == text.replace(
        "a, out, T: tl.constexpr, BLOCK: tl.constexpr = 64):\n",
        "a, out, BLOCK: tl.constexpr=64):\n    T: tl.constexpr = triton.language.float16\n",
    )
    assert with_types(text, "rounded", {}) == text
