"""Kernels that throw, and kernels called where nothing can launch them, in every target."""

from __future__ import annotations

import pytest
import torch

import wrapper_ir as wir
from wrapper_ir.emitters.base import EmitError

PROGRAM = """\
wir 2
program @careful inference logical

symbol n : int
input %x : f32[3] @cpu
input n

kernel @check(in_ptr0: in f32, out_ptr0: out f32, n: i64) cpp
  | #include <cstdint>
  | #include <stdexcept>
  | extern "C" void kernel(const float* in_ptr0, float* out_ptr0, const int64_t n)
  | {
  |     if (n == 7) throw std::domain_error("seven is too much");
  |     if (n == 8) throw 8;
  |     for (int64_t i = 0; i < 3; ++i) out_ptr0[i] = in_ptr0[i] + n;
  | }
  |

  assert_layout %x, "input"
  %buf0 = allocate : f32[3] @cpu
  call @check(%x, out %buf0, n)
return %buf0
"""


@pytest.mark.parametrize("target", ["python", "cpp", "fx"])
def test_what_a_kernel_throws_arrives_and_leaves_the_function_usable(target: str) -> None:
    function = wir.compile(wir.parse(PROGRAM), target=target)
    x = torch.ones(3)
    with pytest.raises(RuntimeError, match="seven is too much"):
        function(x, 7)
    with pytest.raises(RuntimeError, match=r"unknown C\+\+ exception"):
        function(x, 8)
    assert torch.equal(function(x, 2)[0], x + 2)


ELSEWHERE = """\
wir 2
program @elsewhere inference planned

input %x : f32[3] @{device}

kernel @fill(out_ptr0: out f32) cpp
  | extern "C" void kernel(float* out_ptr0) {{ out_ptr0[0] = 1; }}

  call @fill(out %x) @{device}
return %x
"""


@pytest.mark.parametrize("target", ["python", "cpp", "fx"])
@pytest.mark.parametrize("device", ["npu", "npu:1", "cuda"])
def test_a_kernel_in_cpp_is_refused_where_the_host_cannot_reach_the_memory(
    target: str, device: str
) -> None:
    with pytest.raises(EmitError, match=rf"body\[1\]: 'call': .* on {device}\b"):
        wir.emit(wir.parse(ELSEWHERE.format(device=device)), target)


@pytest.mark.parametrize("target", ["python", "cpp", "fx"])
def test_no_target_launches_a_kernel_on_buffers_without_memory(target: str) -> None:
    with pytest.raises(wir.VerificationError, match="WIR1076"):
        wir.compile(wir.parse(ELSEWHERE.format(device="meta")), target)


def test_a_kernel_has_one_name_however_its_device_is_spelled() -> None:
    source = wir.emit(wir.parse(ELSEWHERE.format(device="cpu:0")), "python").source
    assert "\n(fill,) = kernels.load()\n" in source
    assert "\n    fill(x)\n" in source
