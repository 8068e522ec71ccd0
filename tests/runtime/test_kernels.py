from __future__ import annotations

import dataclasses
import runpy
from typing import TYPE_CHECKING

import pytest
import torch

from wrapper_ir.runtime import CppKernels, report_progress
from wrapper_ir.toolchain import kernels
from wrapper_ir.toolchain.errors import KernelSourceError

if TYPE_CHECKING:
    from pathlib import Path

MODULE = '''
import torch
from wrapper_ir.runtime import CppKernels, empty_strided_cpu

kernels = CppKernels(isa="none")
kernels.add(
    "cpp_fused_add_0",
    ("const float*", "float*"),
    r"""
#include <cstdint>
extern "C" void kernel(const float* in_ptr0, float* out_ptr0)
{
    for (int64_t x0 = 0; x0 < 4; ++x0) out_ptr0[x0] = in_ptr0[x0] + 1.0f;  // \\n stays as it is
}
""",
)
kernels.add("cpp_fused_mul_1", ("float*",), "void mul(float* x) { *x *= 3.0f; }", entry="mul")
cpp_fused_add_0, cpp_fused_mul_1 = kernels.load()


def call(args):
    (arg0_1,) = args
    args.clear()
    buf0 = empty_strided_cpu((4,), (1,), torch.float32)
    cpp_fused_add_0(arg0_1, buf0)
    cpp_fused_mul_1(buf0)
    return (buf0,)
'''


def test_a_module_as_it_is_emitted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WRAPPER_IR_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "wrapper.py").write_text(MODULE)
    seen: list[tuple[int, int]] = []
    with report_progress(lambda done, total: seen.append((done, total))):
        module = runpy.run_path(str(tmp_path / "wrapper.py"))
    assert seen[-1] == (2, 2)
    args = [torch.arange(4.0)]
    (result,) = module["call"](args)
    assert args == []
    assert result.tolist() == [3.0, 2.0, 3.0, 4.0]
    runpy.run_path(str(tmp_path / "wrapper.py"))
    assert seen[-1] == (2, 2)
    assert len(seen) <= 2  # nothing is reported to anybody outside the block


def test_the_fast_way_to_pointers_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WRAPPER_IR_CACHE_DIR", str(tmp_path))
    addresses = []
    load = kernels._load

    def spy(file: Path, name: str, address: int) -> object:
        addresses.append(address)
        return load(file, name, address)

    monkeypatch.setattr(kernels, "_load", spy)
    module = CppKernels()
    module.add("k", ("float*",), "void kernel(float* x) { *x = 77.0f; }")
    (k,) = module.load()
    out = torch.zeros(1)
    k(out)
    assert out.item() == 77.0
    assert addresses
    assert all(addresses)


def test_amx_is_asked_for_before_its_kernels_are_built(monkeypatch: pytest.MonkeyPatch) -> None:
    from wrapper_ir.runtime import kernels as runtime_kernels
    from wrapper_ir.toolchain.errors import IsaError
    from wrapper_ir.toolchain.isa import cpu_features

    asked = []
    monkeypatch.setattr(runtime_kernels, "enable_amx", lambda: asked.append(1))
    if "amx_tile" in cpu_features():
        pytest.skip("would build with AMX here")
    module = CppKernels(isa="avx512 avx512_vnni amx_tile")
    module.add("k", (), "void kernel() {}")
    with pytest.raises(IsaError, match="amx_tile"):
        module.load()
    assert asked


def test_two_kernels_of_one_name_are_refused() -> None:
    module = CppKernels()
    module.add("k", (), "void kernel() {}")
    with pytest.raises(KernelSourceError, match="added before"):
        module.add("k", (), "void kernel() {}")


def test_no_kernels() -> None:
    assert CppKernels().load() == ()


def test_our_launcher_is_made_for_the_devices_that_use_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from wrapper_ir.devices import CPU, CUDA
    from wrapper_ir.runtime import triton

    begun: list[str] = []  # the compiler would take ten seconds
    monkeypatch.setattr(triton, "in_background", lambda name, _: begun.append(name))
    side = dataclasses.replace(CUDA.python, triton=("vendor:Kernels", "vendor:stream"))
    vendors = dataclasses.replace(CUDA, python=side)
    assert [*map(triton.uses_launcher, (CPU, CUDA, vendors))] == [False, True, False]
    assert not triton.prepare_launcher([CPU, vendors])
    assert not begun
    assert triton.prepare_launcher([CPU, CUDA])
    assert begun == ["launcher"]
