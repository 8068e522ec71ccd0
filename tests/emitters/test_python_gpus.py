"""Programs that use several GPUs, as Python: what is written for each of them. None is needed."""

from __future__ import annotations

import ast
import math

import pytest

import wrapper_ir as wir
from wrapper_ir.errors import WrapperIRError

TEXT = """
wir 2
program @two inference planned

input %x : f32[64] @cuda:0
input %y : f32[64] @cuda:1

kernel @double(x: in f32, out: out f32) triton entry "double" signature {x: "*fp32", out: "*fp32"}
  | import triton
  | import triton.language as tl
  |
  | @triton.jit
  | def double(x, out):
  |     tl.store(out + tl.arange(0, 64), tl.load(x + tl.arange(0, 64)) * 2)

  %a = allocate : f32[64] @cuda:0
  call @double(%x, out %a) @cuda:0 grid [1]
  %b = allocate : f32[64] @DEVICE
  call @double(%y, out %b) @DEVICE grid [1]
return %a, %b
"""


def emitted(device: str) -> str:
    text = TEXT.replace("DEVICE", device)
    if device == "cuda:0":
        text = text.replace("cuda:1", "cuda:0")
    return wir.emit(wir.parse(text)).source


def test_each_gpu_has_its_kernels_and_its_stream() -> None:
    source = emitted("cuda:1")
    ast.parse(source)
    for line in (
        "triton_kernels = TritonKernels(cuda_0, switches=True)",
        "triton_kernels_1 = TritonKernels(cuda_1, switches=True)",
        "(double,) = triton_kernels.load()",
        "(double_1,) = triton_kernels_1.load()",
        "    stream = current_stream(0)",
        "    double((1,), stream, x, a)",
        "    stream_1 = current_stream(1)",
        "    double_1((1,), stream_1, y, b)",
    ):
        assert line in source.splitlines()
    assert "on_device" not in source


def test_one_gpu_is_made_the_current_one() -> None:
    source = emitted("cuda:0")
    assert "switches" not in source
    assert source.count("TritonKernels(cuda_0)") == 1
    assert "@on_device(cuda_0)" in source.splitlines()


def test_kernels_on_the_host_are_refused() -> None:
    text = TEXT.replace("DEVICE", "cpu").replace("%y : f32[64] @cuda:1", "%y : f32[64] @cpu")
    with pytest.raises(WrapperIRError, match="only launched on GPUs"):
        wir.emit(wir.parse(text))


def test_constants_are_values_of_python() -> None:
    written = 'constants {A: inf, B: -inf, C: none, D: true, E: "x\'", F: -0.0}'
    text = TEXT.replace("DEVICE", "cuda:1").replace('out: "*fp32"}', f'out: "*fp32"}} {written}')
    source = wir.emit(wir.parse(text)).source
    first, *_ = (
        node.value
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.keyword) and node.arg == "constants"
    )
    values = eval(compile(ast.Expression(first), "constants", "eval"), {"float": float})
    assert repr(values) == repr(
        {"A": math.inf, "B": -math.inf, "C": None, "D": True, "E": "x'", "F": -0.0}
    )


STATES = """
wir 2
program @late backward planned

input %q : f32[2, 4, 8, 8] @cuda:0
input %seed : i64[] @cuda:0
input %step : i64[] @cuda:0

extern aten::clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor
extern aten::_scaled_dot_product_efficient_attention(Tensor query, Tensor key, Tensor value, \
Tensor? attn_bias, bool compute_log_sumexp, float dropout_p=0.0, bool is_causal=False, *, \
float? scale=None) -> (Tensor, Tensor, Tensor, Tensor)

kernel @move(x: in i64) triton entry "move" signature {x: "*i64"}
  | import triton
  |
  | @triton.jit
  | def move(x):
  |     pass

  (%o, %l, %a, %i) = aten::_scaled_dot_product_efficient_attention(%q, %q, %q, none, true) \
: (f32[2, 4, 8, 8] @cuda:0, f32[2, 4, 32] @cuda:0, i64[] @cuda:0, i64[] @cuda:0)
  free %l
  free %i
  %n = aten::clone(%seed) : i64[] @cuda:0
  assert_layout %a, "the state"
  call @move(%step) @cuda:0 grid [1]
return %o, %a, %n
"""


def test_states_of_random_numbers_may_be_on_the_host() -> None:
    source = wir.emit(wir.parse(STATES)).source
    assert 'TensorSpec("seed", torch.int64, (), (), device=None)' in source
    assert 'TensorSpec("step", torch.int64, (), (), device=cuda_0)' in source
    assert source.count("device=None") == 2
    forward = wir.emit(wir.parse(STATES.replace("backward", "inference"))).source
    assert 'TensorSpec("seed", torch.int64, (), (), device=cuda_0)' in forward
