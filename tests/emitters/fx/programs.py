"""Programs on which graphs go wrong more easily than emitted code does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

import wrapper_ir as wir

if TYPE_CHECKING:
    from wrapper_ir.lines import Program

_KERNELS = """
kernel @relu(in_ptr0: in f32, out_ptr0: out f32, n: i64) cpp
  | #include <torch/csrc/inductor/cpp_prefix.h>
  | extern "C" void kernel(const float* in_ptr0, float* out_ptr0, const int64_t n)
  | {
  |     for (int64_t i = 0; i < n; ++i) out_ptr0[i] = in_ptr0[i] > 0 ? in_ptr0[i] : 0;
  | }
  |

kernel @round_it(in_ptr0: in f32, out_ptr0: out i32, n: i64) cpp
  | #include <torch/csrc/inductor/cpp_prefix.h>
  | extern "C" void kernel(const float* in_ptr0, int32_t* out_ptr0, const int64_t n)
  | {
  |     for (int64_t i = 0; i < n; ++i) out_ptr0[i] = static_cast<int32_t>(10 * in_ptr0[i]);
  | }
  |

kernel @add_one(in_out_ptr0: inout i32, n: i64) cpp
  | #include <torch/csrc/inductor/cpp_prefix.h>
  | extern "C" void kernel(int32_t* in_out_ptr0, const int64_t n)
  | {
  |     for (int64_t i = 0; i < n; ++i) in_out_ptr0[i] += 1;
  | }
  |

kernel @widen(in_ptr0: in i32, out_ptr0: out f64, n: i64) cpp
  | #include <torch/csrc/inductor/cpp_prefix.h>
  | extern "C" void kernel(const int32_t* in_ptr0, double* out_ptr0, const int64_t n)
  | {
  |     for (int64_t i = 0; i < n; ++i) out_ptr0[i] = 0.5 * in_ptr0[i];
  | }
  |
"""

POOL = f"""
wir 2
program @mixed_pool inference planned

input %x : f32[8] @cpu
{_KERNELS}
  %pool = allocate_pool : u8[192] @cpu
  %a = allocate_from_pool %pool[64] : f32[8] @cpu
  call @relu(%x, out %a, 8)
  %b = allocate_from_pool %pool[0] : i32[8] @cpu
  call @round_it(%a, out %b, 8)
  free %a
  call @add_one(inout %b, 8)
  %c = allocate_from_pool %pool[64] : f64[8] @cpu
  call @widen(%b, out %c, 8)
  %half = reinterpret %c : f64[4]+4 @cpu
  %sum = allocate : f64[8] @cpu
  %tail = reinterpret %sum : i32[8]+8 @cpu
  call @widen(%b, out %sum, 8)
  call @add_one(inout %tail, 8)
  free %b
return %sum, %half, %c
"""
"""A pool of three dtypes, a slice in place of another; a result is written to as another dtype."""

VIEWS = f"""
wir 2
program @written_views inference planned

input %x : f32[4, 4] @cpu
{_KERNELS}
extern aten::add_.Scalar(Tensor(a!) self, Scalar other, Scalar alpha=1) -> Tensor(a!)
extern aten::relu.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)

  %a = allocate : f32[4, 4] @cpu
  call @relu(%x, out %a, 16)
  %bits = reinterpret %a : i32[4]+4 @cpu
  call @add_one(inout %bits, 4)
  %column = reinterpret %a : f32[4]{{4}}+2 @cpu
  aten::add_.Scalar(inout %column, 1)
  %all = reinterpret %a : i32[2, 8] @cpu
  aten::add_.Scalar(inout %all, 3)
  %halves = reinterpret %a : f16[8]+8 @cpu
  aten::add_.Scalar(inout %halves, 1)
  %row = reinterpret %x : f32[4]+8 @cpu
  %out = reinterpret %x : f32[4]+12 @cpu
  aten::relu.out(%row, out=out %out)
return %a, %row
"""
"""Views that are written to: of another dtype, with gaps, of the input, by kernels and by ops."""

REUSED = f"""
wir 2
program @reused_dtypes inference planned

input %x : f32[8] @cpu
{_KERNELS}
  %a = allocate : f32[8] @cpu
  call @relu(%x, out %a, 8)
  %b = reuse %a : i32[4] @cpu
  call @add_one(inout %b, 4)
  %c = allocate : f32[8] @cpu
  call @relu(%x, out %c, 8)
  %d = reuse %c : i32[8] @cpu
  call @round_it(%x, out %d, 8)
  %e = allocate : f64[8] @cpu
  call @widen(%d, out %e, 8)
  free %d
return %b, %e
"""
"""Storage that goes on in another dtype, once with contents that still count."""

SQUARE = """
wir 2
program @square inference planned

input %x : f32[8, 8] @cpu

extern aten::relu(Tensor self) -> Tensor

  %a = aten::relu(%x) : f32[8, 8] @cpu
return %a
"""

_SHARING_KERNELS = """
kernel @cat(in_ptr0: in f32, in_ptr1: in f32, out_ptr0: out f32, out_ptr1: out f32, out_ptr2: out f32, n: i64) cpp
  | #include <torch/csrc/inductor/cpp_prefix.h>
  | extern "C" void kernel(const float* in_ptr0, const float* in_ptr1, float* out_ptr0, float* out_ptr1, float* out_ptr2, const int64_t n)
  | {
  |     for (int64_t i = 0; i < n; ++i) out_ptr0[i] = in_ptr0[i] + 1;
  |     for (int64_t i = 0; i < n; ++i) out_ptr1[i] = in_ptr0[i] * 2;
  |     for (int64_t i = 0; i < 2 * n; ++i) out_ptr2[i] = in_ptr1[i] * 3;
  | }
  |

kernel @add_up(in_ptr0: in f32, in_out_ptr0: inout f32, n: i64) cpp
  | #include <torch/csrc/inductor/cpp_prefix.h>
  | extern "C" void kernel(const float* in_ptr0, float* in_out_ptr0, const int64_t n)
  | {
  |     for (int64_t i = 0; i < n; ++i) in_out_ptr0[i] += in_ptr0[i];
  | }
  |

kernel @mark(out_ptr0: out u8, n: i64) cpp
  | #include <torch/csrc/inductor/cpp_prefix.h>
  | extern "C" void kernel(uint8_t* out_ptr0, const int64_t n)
  | {
  |     for (int64_t i = 0; i < n; ++i) out_ptr0[i] = 61;
  | }
  |
"""  # noqa: E501 - a kernel's head is one line

SHARED = f"""
wir 2
program @shared_storage inference planned

input %x : f32[4, 8] @cpu
input %z : f32[8] @cpu
{_SHARING_KERNELS}
extern aten::add.out(Tensor self, Tensor other, *, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)

  %whole = allocate : f32[2, 32] @cpu
  %first = reinterpret %whole : f32[32] @cpu
  %second = reinterpret %whole : f32[32]+32 @cpu
  %y = allocate : f32[64] @cpu
  call @cat(%x, %whole, out %first, out %second, out %y, 32)
  %head = reinterpret %y : f32[63] @cpu
  %tail = reinterpret %y : f32[63]+1 @cpu
  call @add_up(%head, inout %tail, 63)
  %zhead = reinterpret %z : f32[7] @cpu
  %ztail = reinterpret %z : f32[7]+1 @cpu
  call @add_up(%zhead, inout %ztail, 7)
  %bytes = reinterpret %whole : u8[3]+5 @cpu
  call @mark(out %bytes, 3)
  %left = reinterpret %y : f32[16] @cpu
  %right = reinterpret %y : f32[16]+16 @cpu
  call @add_up(%left, inout %right, 16)
  call @add_up(%y, inout %y, 64)
  aten::add.out(%left, %right, out=out %right)
  %pool = allocate_pool : u8[512] @cpu
  %a = allocate_from_pool %pool[0] : f32[64] @cpu
  %b = allocate_from_pool %pool[256] : f32[64] @cpu
  %a0 = reinterpret %a : f32[32] @cpu
  %a1 = reinterpret %a : f32[32]+32 @cpu
  call @cat(%x, %a, out %a0, out %a1, out %b, 32)
  call @add_up(%a, inout %b, 64)
return %whole, %y, %a, %b
"""
"""Calls that read through one argument what they write through another."""

SHARED_SYMBOLIC = f"""
wir 2
program @shared_symbolic inference planned

symbol s0 : int [1, inf] hint 8

input %x : f32[s0] @cpu
{_SHARING_KERNELS}
  s0 = size %x, 0
  %whole = allocate : f32[2*s0] @cpu
  %first = reinterpret %whole : f32[s0] @cpu
  %second = reinterpret %whole : f32[s0]+s0 @cpu
  %y = allocate : f32[2*s0] @cpu
  call @cat(%x, %whole, out %first, out %second, out %y, s0)
  %left = reinterpret %y : f32[s0] @cpu
  %right = reinterpret %y : f32[s0]+s0 @cpu
  call @add_up(%left, inout %right, s0)
return %whole, %y
"""

LAYOUTS = f"""
wir 2
program @written_layouts inference planned

input %x : f32[4, 4] @cpu
input %g : f32[4, 4]{{8, 1}} @cpu
{_KERNELS}
extern aten::mm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!)
extern aten::add.out(Tensor self, Tensor other, *, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)
extern aten::neg_(Tensor(a!) self) -> Tensor(a!)
extern aten::copy_(Tensor(a!) self, Tensor src, bool non_blocking=False) -> Tensor(a!)

  %turned = allocate : f32[4, 4]{{1, 4}} @cpu
  aten::copy_(out %turned, %x)
  %a = allocate : f32[16] @cpu
  call @relu(%turned, out %a, 16)
  %rows = allocate : f32[4, 4] @cpu
  aten::add.out(%turned, %turned, out=out %rows)
  free %turned
  %b = allocate : f32[16] @cpu
  call @relu(%rows, out %b, 16)
  free %rows
  aten::neg_(inout %g)
  %c = allocate : f32[28] @cpu
  call @relu(%g, out %c, 28)
  %d = reinterpret %c : f32[4, 4]{{8, 1}} @cpu
return %a, %b, %d
"""
"""Ops that write where the layout is not the one that they would give; kernels that rely on it."""

WRITTEN_TURNED = f"""
wir 2
program @written_turned inference planned

input %x : f32[4, 4] @cpu
{_KERNELS}
extern aten::mm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!)

  %turned = allocate : f32[4, 4]{{1, 4}} @cpu
  aten::mm.out(%x, %x, out=out %turned)
  %a = allocate : f32[16] @cpu
  call @relu(%turned, out %a, 16)
return %a, %turned
"""

RESULTS_IN_REGIONS = """
wir 2
program @results_in_regions inference planned

symbol s0 : int [1, inf] hint 4

input %x : f32[s0, 4] @cpu
input %p : bool[] @cpu

extern aten::mul.Scalar(Tensor self, Scalar other) -> Tensor

  s0 = size %x, 0
  %a = cond %p with (%x) : f32[s0, 4] @cpu
    then (%x0 : f32[s0, 4] @cpu) {
      %y0 = aten::mul.Scalar(%x0, 2) : f32[s0, 4] @cpu
      assert_layout %y0, "mul"
      yield %y0
    }
    else (%x1 : f32[s0, 4] @cpu) {
      %y1 = aten::mul.Scalar(%x1, 3) : f32[s0, 4] @cpu
      assert_layout %y1, "mul"
      yield %y1
    }
return %a
"""
"""Regions that check what an op gave."""

CONSTANTS_IN_REGIONS = """
wir 2
program @constants_in_regions inference planned

symbol s0 : int [1, inf] hint 4
symbol z0 : float
symbol u0 : int unbacked
symbol z1 : float unbacked
symbol z2 : float unbacked

input %x : f32[s0] @cpu
input %p : bool[] @cpu
input z0

constant %w : f32[1] @cpu = parameter "layers.0.weight"

extern aten::mul.Tensor(Tensor self, Tensor other) -> Tensor
extern aten::mul.Scalar(Tensor self, Scalar other) -> Tensor
extern aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor

  s0 = size %x, 0
  (%a, u0, z1) = cond %p with (%x) : (f32[s0] @cpu, symbol, symbol)
    then (%x0 : f32[s0] @cpu) {
      %y0 = aten::mul.Tensor(%x0, %w) : f32[s0] @cpu
      yield %y0, s0 + 1, z0 / 3
    }
    else (%x1 : f32[s0] @cpu) {
      %y1 = aten::mul.Scalar(%x1, z0) : f32[s0] @cpu
      %y2 = aten::add.Tensor(%y1, %w, alpha=2) : f32[s0] @cpu
      free %y1
      yield %y2, 3, 0.5
    }
return %a, u0 * s0, 2 * z1
"""
"""Regions that use a constant, and numbers of both kinds from outside."""


GAPS = """
wir 2
program @gaps inference planned

input %x : f32[4, 4] @cpu

extern aten::add_.Scalar(Tensor(a!) self, Scalar other, Scalar alpha=1) -> Tensor(a!)

  %v = reinterpret %x : f32[4]{4}+2 @cpu
  aten::add_.Scalar(inout %v, 1)
return none
"""

ATTENTION = """
wir 2
program @attention inference planned

input %q : f32[2, 2, 6, 16]{576, 16, 96, 1} @cpu

extern aten::_scaled_dot_product_flash_attention_for_cpu(Tensor query, Tensor key, Tensor value, float dropout_p=0.0, bool is_causal=False, *, Tensor? attn_mask=None, float? scale=None) -> (Tensor output, Tensor logsumexp)

  %o = aten::_scaled_dot_product_flash_attention_for_cpu(%q, %q, %q) : f32[2, 2, 6, 16]{192, 16, 32, 1} @cpu at [0]
  assert_layout %o, "attention"
  %flat = reinterpret %o : f32[12, 32] @cpu
return %flat
"""  # noqa: E501 - a schema is one line

LOGARITHM = """
wir 2
program @logarithm inference planned

symbol s0 : int [2, inf] hint 4
symbol z0 : float

input %x : f32[s0] @cpu

extern aten::mul.Scalar(Tensor self, Scalar other) -> Tensor

  s0 = size %x, 0
  z0 = compute Log(ToFloat(s0))
  %y = aten::mul.Scalar(%x, z0) : f32[s0] @cpu
return %y
"""


def _wide(count: int) -> str:
    """A kernel that reads and writes many buffers, called on buffers apart and on parts of one."""
    numbers = range(count)
    reads = [f"in_ptr{i}" for i in numbers]
    writes = [f"out_ptr{i}" for i in numbers]
    head = ", ".join([f"{r}: in f32" for r in reads] + [f"{w}: out f32" for w in writes])
    plain = ", ".join([f"const float* {r}" for r in reads] + [f"float* {w}" for w in writes])
    body = "\n".join(f"  |     out_ptr{i}[0] = in_ptr{i}[0] * scale + {i} * n;" for i in numbers)
    kernel = f"""
kernel @wide({head}, scale: f64, n: i64) cpp
  | #include <torch/csrc/inductor/cpp_prefix.h>
  | extern "C" void kernel({plain}, const double scale, const int64_t n)
  | {{
{body}
  | }}
  |
"""
    items = "\n".join(f"  %x{i} = reinterpret %x : f32[1]+{i} @cpu" for i in numbers)
    made = "\n".join(f"  %a{i} = allocate : f32[1] @cpu" for i in numbers)
    parts = "\n".join(f"  %b{i} = reinterpret %b : f32[1]+{i} @cpu" for i in numbers)
    given = ", ".join(f"%x{i}" for i in numbers)
    apart = ", ".join(f"out %a{i}" for i in numbers)
    together = ", ".join(f"out %b{i}" for i in numbers)
    read_again = ", ".join(f"%b{count - 1 - i}" for i in numbers)
    return f"""
wir 2
program @many_arguments inference planned

input %x : f32[{count}] @cpu
{kernel}
{items}
{made}
  call @wide({given}, {apart}, 0.5, 7)
  %b = allocate : f32[{count}] @cpu
{parts}
  call @wide({given}, {together}, 2, 1)
  call @wide({read_again}, {together}, 0.25, 3)
return {", ".join(f"%a{i}" for i in numbers)}, %b
"""


WIDE = _wide(33)
"""More arguments than torch's registry takes, also where they are parts of one memory."""


@dataclass(frozen=True)
class Extra:
    """A program, and fresh inputs for it."""

    text: str
    make: Callable[[], list[Any]]

    def program(self) -> Program:
        found = wir.parse(self.text)
        data = {}
        for name, constant in found.constants.items():
            size = [n for n in found.layout(name).size if isinstance(n, int)]
            data[name] = torch.randn(size)
            assert constant.qualified_name
        return found.replace(data=data)


EXTRA: dict[str, Extra] = {
    "many_arguments": Extra(WIDE, lambda: [torch.randn(33)]),
    "constants_in_regions": Extra(
        CONSTANTS_IN_REGIONS, lambda: [torch.randn(4), torch.rand(()) > 0.5, 0.75]
    ),
    "mixed_pool": Extra(POOL, lambda: [torch.randn(8)]),
    "results_in_regions": Extra(
        RESULTS_IN_REGIONS, lambda: [torch.randn(5, 4), torch.rand(()) > 0.5]
    ),
    "reused_dtypes": Extra(REUSED, lambda: [torch.randn(8)]),
    "shared_storage": Extra(SHARED, lambda: [torch.randn(4, 8), torch.randn(8)]),
    "shared_symbolic": Extra(SHARED_SYMBOLIC, lambda: [torch.randn(8)]),
    "square": Extra(SQUARE, lambda: [torch.randn(8, 8)]),
    "written_layouts": Extra(LAYOUTS, lambda: [torch.randn(4, 4), torch.randn(4, 8)[:, :4]]),
    "written_turned": Extra(WRITTEN_TURNED, lambda: [torch.randn(4, 4)]),
    "written_views": Extra(VIEWS, lambda: [torch.randn(4, 4)]),
}
