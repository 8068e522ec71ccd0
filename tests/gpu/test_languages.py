"""Kernels in a language of one's own on a GPU, beside Inductor's and library ops."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest
import torch
from torch.utils import cpp_extension

import wrapper_ir as wir
from tests.gpu.cuda_language import LANGUAGE, CudaCpp
from wrapper_ir import devices
from wrapper_ir.runtime import TritonKernels

if TYPE_CHECKING:
    from collections.abc import Iterator

SCALE = """__global__ void scale(const float* x, float* y, double factor, long long count) {
  long long at = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (at < count) y[at] = x[at] * factor;
}"""


@pytest.fixture(autouse=True)
def _taught(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """GPUs run the language; in C++ its Python side launches."""
    # PyTorch wants headers of CUDA's, though the kernel includes none.
    monkeypatch.setattr(cpp_extension, "CUDA_HOME", cpp_extension.CUDA_HOME or "/usr")
    assert devices.CUDA.cpp is not None
    taught = dataclasses.replace(
        devices.CUDA,
        languages=(*devices.CUDA.languages, LANGUAGE),
        cpp=dataclasses.replace(devices.CUDA.cpp, python=True),
    )
    devices.register_device(taught, over=devices.CUDA)
    try:
        yield
    finally:
        devices.register_device(devices.CUDA, over=taught)


def scaled() -> wir.Program:
    """Scales a matrix, and multiplies it by itself."""
    b = wir.Builder("scaled", device="cuda:0")
    n = b.symbol("n", min=1)
    x = b.input("x", "f32", (n, 64))
    scale = b.device_kernel(
        "scale",
        SCALE,
        language=LANGUAGE.name,
        reads=[("x", "f32")],
        writes=[("y", "f32")],
        scalars=[("factor", "f64"), ("count", "i64")],
        group=(128,),
    )
    y = b.allocate("f32", (n, 64))
    b.call(scale, x, y, 0.5, n * 64, grid=((n * 64 + 127) // 128,))
    z = b.allocate("f32", (n, n))
    mm = "aten::mm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!)"
    b.extern(mm, y, b.reinterpret(y, (64, n), (1, 64)), out=z)
    b.returns(y, z)
    return b.build()


@pytest.mark.parametrize("emitter", ["python", "cpp"])
def test_it_runs(emitter: str) -> None:
    program = scaled()
    assert wir.parse(str(program)) == program
    run = wir.compile(program, emitter)
    for rows in (1, 3, 100):
        x = torch.randn(rows, 64, device="cuda")
        y, z = run(x)
        assert torch.equal(y, x * 0.5)
        torch.testing.assert_close(z, y @ y.t())


def test_a_launch_costs_what_one_of_triton_costs() -> None:
    """Both go through one launcher: the callables are of one type."""
    pytest.importorskip("triton")
    launcher = CudaCpp(torch.device("cuda", 0))
    params = ("in f32", "out f32", "f64", "i64")
    launcher.add("scale", params, SCALE, entry="scale", group=(128,))
    (kernel,) = launcher.load()
    kernels = TritonKernels("cuda:0")
    text = (
        "import triton\nimport triton.language as tl\n\n"
        "@triton.jit\ndef one(x):\n    tl.store(x, 1.0)\n"
    )
    kernels.add("one", {"x": "*fp32"}, text)
    (other,) = kernels.load()
    assert type(kernel) is type(other)
