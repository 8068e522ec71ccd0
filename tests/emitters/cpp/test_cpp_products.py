"""Which products of matrices call cuBLAS themselves, and how that reads; no GPU is needed."""

from __future__ import annotations

from typing import Any

import pytest

import wrapper_ir as wir
from tests.emitters.corpus import program
from tests.emitters.cpp.compiling import check_syntax
from wrapper_ir.errors import OptionValueError

HEAD = """
wir 2
program @products inference logical
symbol s0 : int [0, inf] hint 16
"""
OPS = """
extern aten::mm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!)
extern aten::bmm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!)
extern aten::addmm.out(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1, \
Tensor(a!) out) -> Tensor(a!)
extern aten::sin.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)
"""
MIXED = f"""{HEAD}
input %x : bf16[s0, 64] @cuda:0
input %w : bf16[48, 64] @cuda:0
input %u : bf16[4, 48, 8] @cuda:0
{OPS}
  s0 = size %x, 0
  assert_layout %x, "input"
  assert_layout %w, "input"
  assert_layout %u, "input"
  %t = reinterpret %w : bf16[64, 48]{{1, 64}} @cuda:0
  %a = allocate : bf16[s0, 48] @cuda:0
  aten::mm.out(%x, %t, out=out %a) @cuda:0
  %b = allocate : bf16[s0, 48] @cuda:0
  aten::mm.out(%x, %t, out=out %b) @cuda:0
  aten::sin.out(%b, out=out %b) @cuda:0
  %rows = reinterpret %a : bf16[4, s0, 48]{{0, 48, 1}} @cuda:0
  %c = allocate : bf16[4, s0, 8] @cuda:0
  aten::bmm.out(%rows, %u, out=out %c) @cuda:0
return %a, %b, %c
"""

#: From the first check on; %t and %rows are no tensors.
RUN = """\
  call.line = 1;
  const std::int64_t a_size[] = {s0, 48};
  wir::Tensor a = wir::empty(2, a_size, dims_48_1, cuda_bfloat16);
  call.line = 2;
  void* a_ptr = wir::data<void>(a);
  void* x_ptr = wir::data<void>(x);
  void* t_ptr = wir::data<void>(w);
  wir::mm(0, wir::dtype::bfloat16, {a_ptr, s0, 48, 48, 1}, {x_ptr, s0, 64, 64, 1}, {t_ptr, 64, 48,
      1, 64});
  call.line = 3;
  const std::int64_t b_size[] = {s0, 48};
  wir::Tensor b = wir::empty(2, b_size, dims_48_1, cuda_bfloat16);
  call.line = 4;
  void* b_ptr = wir::data<void>(b);
  wir::mm(0, wir::dtype::bfloat16, {b_ptr, s0, 48, 48, 1}, {x_ptr, s0, 64, 64, 1}, {t_ptr, 64, 48,
      1, 64});
  wir::release(call, 0, 1);
  call.line = 5;
  aten_sin_out({b, b});
  call.line = 6;
  const std::int64_t c_size[] = {4, s0, 8};
  const std::int64_t c_stride[] = {8 * s0, 8, 1};
  wir::Tensor c = wir::empty(3, c_size, c_stride, cuda_bfloat16);
  call.line = 7;
  void* c_ptr = wir::data<void>(c);
  void* rows_ptr = wir::data<void>(a);
  void* u_ptr = wir::data<void>(u);
  wir::bmm(0, wir::dtype::bfloat16, 4, {c_ptr, s0, 8, 8, 1, 8 * s0}, {rows_ptr, s0, 48, 48, 1, 0},
      {u_ptr, 48, 8, 8, 1, 384});
  call.line = 8;
"""


def emitted(text: str, products: str = "cublas", **options: Any) -> str:
    planned = wir.plan_memory(wir.parse(text), "none")
    made: Any = wir.emit(planned, "cpp", gpu_matmul=products, **options)
    return str(made.source)


def test_how_it_reads() -> None:
    source = emitted(MIXED)
    assert RUN in source
    assert "#include <wir/blas.h>\n" in source
    assert "aoti_torch_cuda_mm_out" not in source
    check_syntax(source)


def test_aten_makes_them_unless_told_otherwise() -> None:
    source = emitted(MIXED, "aten")
    assert "blas" not in source
    assert "aoti_torch_cuda_mm_out" in source


def one(left: str, right: str, out: str, op: str = "mm") -> str:
    """Who makes one product: ``cublas`` or ``aten``."""
    symbols = "  s0 = size %a, 0\n" if "s0" in left else ""
    text = f"""{HEAD if symbols else HEAD.replace("symbol s0 : int [0, inf] hint 16", "")}
input %a : {left}
input %b : {right}
{OPS}
{symbols}  assert_layout %a, "input"
  assert_layout %b, "input"
  %c = allocate : {out}
  aten::{op}.out(%a, %b, out=out %c)
return %c
"""
    return "cublas" if f"wir::{op}(0" in emitted(text) else "aten"


GPU = "@cuda:0"


@pytest.mark.parametrize("name", ["bf16", "f16", "f32", "f64"])
def test_types_that_cublas_takes(name: str) -> None:
    found = one(f"{name}[4, 8] {GPU}", f"{name}[8, 5] {GPU}", f"{name}[4, 5] {GPU}")
    assert found == "cublas"


@pytest.mark.parametrize("layout", ["{8, 1}", "{1, 4}", "{16, 1}", "{1, 9}"])
def test_layouts_that_cublas_takes(layout: str) -> None:
    left, right = f"f32[4, 8]{layout} {GPU}", f"f32[8, 5] {GPU}"
    assert one(left, right, f"f32[4, 5] {GPU}") == "cublas"
    assert one(f"f32[5, 4]{{1, 5}} {GPU}", left, f"f32[5, 8] {GPU}") == "cublas"


@pytest.mark.parametrize(
    ("left", "right", "out"),
    [
        (f"f32[4, 8]{{16, 2}} {GPU}", f"f32[8, 5] {GPU}", f"f32[4, 5] {GPU}"),
        (f"f32[4, 8]{{0, 0}} {GPU}", f"f32[8, 5] {GPU}", f"f32[4, 5] {GPU}"),
        (f"f32[4, 8] {GPU}", f"f32[8, 5] {GPU}", f"f32[4, 5]{{1, 4}} {GPU}"),
        (f"f32[4, 8] {GPU}", f"f32[8, 5] {GPU}", f"f32[4, 5]{{8, 1}} {GPU}"),
        (f"f32[4, 0] {GPU}", f"f32[0, 5] {GPU}", f"f32[4, 5] {GPU}"),
        (f"i32[4, 8] {GPU}", f"i32[8, 5] {GPU}", f"i32[4, 5] {GPU}"),
        (f"bf16[4, 8] {GPU}", f"bf16[8, 5] {GPU}", f"f32[4, 5] {GPU}"),
        ("f32[4, 8] @cpu", "f32[8, 5] @cpu", "f32[4, 5] @cpu"),
    ],
)
def test_what_is_left_to_aten(left: str, right: str, out: str) -> None:
    assert one(left, right, out) == "aten"


def test_what_depends_on_sizes_is_decided_in_the_call() -> None:
    left, out = f"f32[s0, 8]{{2*s0, 1}} {GPU}", f"f32[s0, 5] {GPU}"
    assert one(left, f"f32[8, 5] {GPU}", out) == "cublas"


def test_products_with_something_added_are_left_to_aten() -> None:
    source = emitted(f"""{HEAD.replace("symbol s0 : int [0, inf] hint 16", "")}
input %a : f32[8, 8] @cuda:0
{OPS}
  assert_layout %a, "input"
  %c = allocate : f32[8, 8] @cuda:0
  aten::addmm.out(%a, %a, %a, out=out %c)
return %c
""")
    assert "wir::mm" not in source


def test_programs_for_the_cpu_are_the_same() -> None:
    made = program("extern_out")
    both = {str(wir.emit(made, "cpp", gpu_matmul=each).source) for each in ("aten", "cublas")}
    assert len(both) == 1


def test_the_older_name_of_the_option_works() -> None:
    with pytest.warns(DeprecationWarning, match="'products' is called 'gpu_matmul' now"):
        older = wir.emit(wir.plan_memory(wir.parse(MIXED), "none"), "cpp", products="aten")
    assert older.source == emitted(MIXED, "aten") != emitted(MIXED)


def test_other_makers_are_refused() -> None:
    with pytest.raises(OptionValueError, match="one of 'aten', 'cublas'"):
        wir.emit(program("extern_out"), "cpp", gpu_matmul="cutlass")
