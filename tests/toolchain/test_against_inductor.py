"""Kernels of Inductor's own, built by us and by Inductor: bitwise the same results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from wrapper_ir.runtime import load_kernels
from wrapper_ir.toolchain.isa import detect
from wrapper_ir.toolchain.source import CppSource

pytestmark = pytest.mark.skipif(
    detect().name == "none", reason="the kernels are vectorised, and this CPU has nothing for it"
)

PREFIX = "#include <torch/csrc/inductor/cpp_prefix.h>\n"

#: As Inductor writes it, less the vector width: exp, tanh, erf, a sum whose order matters, and a
#: division whose rounding does.
ARITHMETIC = PREFIX + """
extern "C" void kernel(const float* in_ptr0, float* out_ptr0, float* out_ptr1)
{
    constexpr int64_t W = at::vec::Vectorized<float>::size();
    at::vec::Vectorized<float> tmp_acc0_vec(0);
    float tmp_acc1 = 0;
    for (int64_t x0 = 0; x0 < 1024; x0 += W) {
        auto tmp0 = at::vec::Vectorized<float>::loadu(in_ptr0 + x0);
        auto tmp1 = tmp0.exp() / (tmp0.tanh() + at::vec::Vectorized<float>(1.7f));
        auto tmp2 = at::vec::fmadd(tmp1, tmp0.erf(), tmp0 * tmp0 + tmp1);
        tmp_acc0_vec = tmp_acc0_vec + tmp2;
        tmp2.store(out_ptr0 + x0);
    }
    for (int64_t x0 = 0; x0 < 1024; ++x0)
        tmp_acc1 = tmp_acc1 + std::sin(in_ptr0[x0]) * in_ptr0[x0] + 0.1f;
    out_ptr1[0] = at::vec::vec_reduce_all<float, 1>(
        [](at::vec::Vectorized<float>& x, at::vec::Vectorized<float>& y) { return x + y; },
        tmp_acc0_vec);
    out_ptr1[1] = tmp_acc1;
}
"""
ARITHMETIC_TYPES = ("const float*", "float*", "float*")

DIVISION = PREFIX + """
extern "C" void kernel(const int64_t* in_ptr0, const int64_t* in_ptr1, int64_t* out_ptr0)
{
    std::atomic<int> inductor_cpu_integer_div_error{0};
    inductor_cpu_integer_div_error_flag = &inductor_cpu_integer_div_error;
    #pragma omp parallel for
    for (int64_t x0 = 0; x0 < 64; ++x0)
        out_ptr0[x0] = floor_divide_integral(in_ptr0[x0], in_ptr1[x0]);
    inductor_cpu_integer_div_error_flag = nullptr;
    inductor_cpu_throw_if_integer_div_error(inductor_cpu_integer_div_error);
}
"""
DIVISION_TYPES = ("const int64_t*", "const int64_t*", "int64_t*")

NOTHING = """#include <cstdint>
extern "C" void kernel(const float* a, const float* b, float* c, const int64_t d) {}
"""
NOTHING_TYPES = ("const float*", "const float*", "float*", "const int64_t")


#: Before, kernels divide integers as C++ does: by zero, the process ends.
DIVIDES = (
    "inductor_cpu_integer_div_error_flag"
    in (Path(torch.__file__).parent / "include/torch/csrc/inductor/cpp_prefix.h").read_text()
)


@pytest.fixture(scope="module")
def ours() -> list[Any]:
    sources = [CppSource("arithmetic", ARITHMETIC, ARITHMETIC_TYPES, isa=detect().name)]
    if DIVIDES:
        sources.append(CppSource("division", DIVISION, DIVISION_TYPES, isa=detect().name))
    return list(load_kernels(*sources, CppSource("nothing", NOTHING, NOTHING_TYPES)))


def stock(arg_types: tuple[str, ...], code: str) -> Any:
    from torch._inductor import config
    from torch._inductor.codecache import CppPythonBindingsCodeCache

    # Trial libraries and the precompiled header cost ten seconds and change nothing in a result.
    with config.patch({"cpp.vec_isa_ok": True, "cpp_cache_precompile_headers": False}):
        return CppPythonBindingsCodeCache.load_pybinding(list(arg_types), code)


def test_arithmetic_is_bitwise_that_of_inductor(ours: list[Any]) -> None:
    theirs = stock(ARITHMETIC_TYPES, ARITHMETIC)
    torch.manual_seed(0)
    value = torch.randn(1024) * 3
    value[::100] = torch.tensor([float("nan"), float("inf"), -float("inf"), 1e-40, -0.0] * 3)[:11]
    results = []
    for function in (ours[0], theirs):
        out, sums = torch.empty(1024), torch.empty(2)
        function(value, out, sums)
        results.append(torch.cat([out, sums]).view(torch.int32))
    assert torch.equal(*results)


@pytest.mark.skipif(
    not DIVIDES, reason="kernels of PyTorch 2.11 do not look at what they divide by"
)
def test_integer_division_by_zero_is_an_exception(ours: list[Any]) -> None:
    a = torch.arange(-32, 32)
    out = torch.empty_like(a)
    ours[1](a, torch.full_like(a, 5), out)
    assert torch.equal(out, a // 5)
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        ours[1](a, torch.zeros_like(a), out)
    ours[1](a, torch.full_like(a, -3), out)
    assert torch.equal(out, a // -3)
