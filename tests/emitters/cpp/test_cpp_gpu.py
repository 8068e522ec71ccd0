"""Triton kernels in C++, as far as that needs neither a GPU nor Triton."""

from __future__ import annotations

import dataclasses
import importlib.util
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
import torch

import wrapper_ir as wir
from tests.emitters.corpus import program
from tests.emitters.cpp.compiling import check_syntax
from tests.emitters.test_python_gpus import STATES
from tests.emitters.test_python_gpus import TEXT as TWO
from wrapper_ir.aot.build.gpu_kernels import DeviceCode, chosen_archs
from wrapper_ir.aot.build.library import build
from wrapper_ir.aot.build.work import BuildOptions
from wrapper_ir.emitters import EmitError
from wrapper_ir.emitters.cpp.renderer import MAIN_FILE
from wrapper_ir.errors import OptionValueError, WrapperIRError
from wrapper_ir.toolchain.cache import DiskCache, default_cache
from wrapper_ir.toolchain.compiler import find_compiler, native_include_dirs
from wrapper_ir.toolchain.objects import assemble
from wrapper_ir.toolchain.triton import GpuBinary, TritonSource, binary_key, keep_binary

if TYPE_CHECKING:
    from pathlib import Path

    from wrapper_ir.aot.emitter import CppArtifact

needs_no_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")

SYMBOL = 'a "name" \\ of its own'


def emitted(text: str) -> CppArtifact:
    made: Any = wir.emit(wir.parse(text), "cpp")
    return made


def triton_text() -> str:
    return str(program("triton"))


def with_binaries(cache: DiskCache, *archs: int) -> CppArtifact:
    """The program, its kernel in a cache as if it had been compiled."""
    artifact = emitted(triton_text())
    (kernel,) = artifact.gpu_kernels
    for arch in archs:
        binary = GpuBinary(
            arch, b"code %d" % arch, SYMBOL, 128, 1000 + arch, 1, arch == 90, 2 * arch
        )
        keep_binary(kernel.source, binary, cache)
    return artifact


@needs_no_gpu
def test_without_a_gpu_an_architecture_must_be_named(tmp_path: Path) -> None:
    made = program("triton")
    with pytest.raises(WrapperIRError, match="there is no GPU here") as caught:
        wir.export(made, tmp_path / "model.so")
    assert "gpu_arch='sm_90'" in str(caught.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(importlib.util.find_spec("triton") is not None, reason="Triton is there")
def test_without_triton_nothing_is_built(tmp_path: Path) -> None:
    with pytest.raises(WrapperIRError, match="'triton_poi_fused_relu_0': Triton is not installed"):
        wir.export(program("triton"), tmp_path / "model.so", gpu_arch="sm_90")
    assert not list(tmp_path.iterdir())


def test_architectures() -> None:
    kernels = emitted(triton_text()).gpu_kernels
    assert chosen_archs(kernels, ("sm_90", "sm_80", "sm_90a")) == (80, 90)
    assert chosen_archs((), ()) == ()
    for wrong in ("90", "sm_", "gfx942", "sm_90\n"):
        with pytest.raises(OptionValueError, match="gpu_arch"):
            chosen_archs(kernels, wrong)


def test_images_are_what_the_runtime_part_reads(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path / "cache")
    (kernel,) = with_binaries(cache, 80, 90).gpu_kernels
    DeviceCode((kernel,), (80, 90)).write(tmp_path, cache)
    compiler = find_compiler(cache)
    made = assemble(compiler, tmp_path / "gpu_kernels.s")
    (tmp_path / "main.cpp").write_text(f"""
#include <cstdio>
#include <wir/gpu.h>
extern "C" const wir::GpuImage {kernel.symbol}[];
int main() {{
  for (const wir::GpuImage* image = {kernel.symbol}; image->arch != 0; ++image) {{
    std::printf("%d %d %.7s %s %u %u %d\\n", image->arch, image->cooperative, image->code,
                image->symbol, image->threads, image->shared, int(image->scratch));
  }}
}}
""")
    includes = [f"-I{path}" for path in native_include_dirs()]
    command = [*compiler.command, "-std=c++20", *includes, "main.cpp", made.name, "-o", "main"]
    subprocess.run(command, cwd=tmp_path, check=True)
    done = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True)
    assert (
        done.stdout == f"80 0 code 80 {SYMBOL} 128 1080 160\n90 1 code 90 {SYMBOL} 128 1090 180\n"
    )


def test_a_library_is_built_and_says_what_it_lacks(tmp_path: Path) -> None:
    artifact = with_binaries(default_cache(), 70)
    library = build(artifact, tmp_path, BuildOptions(gpu_arch="sm_70")).file
    assert b"code 70" in library.read_bytes()
    with pytest.raises(WrapperIRError, match=r"libtorch_cuda|CUDA driver|wrong device"):
        artifact.load(gpu_arch="sm_70")(torch.zeros(4))


def test_text_in_caches_is_no_code() -> None:
    odd = '# """ \\ \\n {x} \u20ac'
    artifact = emitted(
        triton_text().replace("  | import triton\n", f"  | {odd}\n  | import triton\n", 1)
    )
    (kernel,) = artifact.gpu_kernels
    assert kernel.source.code.startswith(odd)
    assert odd not in artifact.source
    variables: dict[str, Any] = {}
    exec(artifact.as_module().source.partition("\ncall = ")[0], variables)
    ((symbol, *fields),) = variables["_gpu_kernels"]
    assert (symbol, TritonSource(*fields)) == (kernel.symbol, kernel.source)


def test_the_text_compiles() -> None:
    check_syntax(emitted(triton_text()).source)


def test_what_cannot_be_passed_is_refused() -> None:
    text = triton_text()
    with pytest.raises(EmitError, match="Triton's type 'i8' cannot be passed"):
        emitted(text.replace('xnumel: "i32"', 'xnumel: "i8"'))
    with pytest.raises(EmitError, match="'xnumel' is a pointer to Triton"):
        emitted(text.replace('xnumel: "i32"', 'xnumel: "*i32"'))


def test_states_of_random_numbers_may_be_on_the_host() -> None:
    artifact = emitted(STATES)
    check_syntax(artifact.source)
    source = " ".join(artifact.source.split())
    anywhere = "wir::dtype::int64, wir::device::any, -1, 0, nullptr, nullptr"
    on_gpu = "wir::dtype::int64, wir::device::cuda, 0, 0, nullptr, nullptr"
    assert f'{{"seed", wir::Kind::kTensor, false, false, {{{anywhere}}}}}' in source
    assert f'{{"step", wir::Kind::kTensor, false, false, {{{on_gpu}}}}}' in source
    assert source.count(anywhere) == 2
    forward = " ".join(emitted(STATES.replace("backward", "inference")).source.split())
    assert f'{{"seed", wir::Kind::kTensor, false, false, {{{on_gpu}}}}}' in forward


def test_inputs_and_results_may_be_on_any_device() -> None:
    artifact = emitted("""
wir 2
program @any inference planned
input %x : f32[4] @cpu
extern aten::clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor
  %y = aten::clone(%x) : f32[4] @cpu
  assert_layout %y, "torch.ops.aten.clone.default"
return %y
""")
    text = artifact.sources[MAIN_FILE]
    wanted = text.replace("wir::device::cpu, -1", "wir::device::any, -1")
    assert text.count("wir::device::cpu, -1") == 2
    assert "wir::check_result(" in text
    call = dataclasses.replace(artifact, sources={**artifact.sources, MAIN_FILE: wanted}).load()
    x = torch.arange(4.0)
    assert torch.equal(call(x)[0], x)
    with pytest.raises(WrapperIRError, match="wrong dtype"):
        call(x.double())


@pytest.mark.parametrize("options", [{}, {"arena": "kept"}, {"cuda_graph": True}])
def test_a_gpu_without_a_number_is_the_one_that_is_current_on_loading(
    options: dict[str, Any],
) -> None:
    text = triton_text().replace("@cuda:0", "@cuda")
    source = wir.emit(wir.parse(text), "cpp", **options).source
    check_syntax(source)
    assert "wir::device::cuda, 0" not in source
    for line in ("inline wir::Here here;", "const wir::GpuCall on_gpu(call, here);"):
        assert line in source
    assert "const wir::OnDevice on_device(here);" in source
    assert "&wir_program::here,\n};" in source


def test_each_gpu_has_its_kernels() -> None:
    artifact: Any = wir.emit(wir.parse(TWO.replace("DEVICE", "cuda:1")), "cpp", arena="kept")
    check_syntax(artifact.source)
    lines = [line.strip() for line in artifact.source.splitlines()]
    for line in (
        "double_1.load(0);",
        "double_1_on_1.load(1);",
        "const wir::GpuCall on_gpu(call, 0);",
        "double_1(call, {1}, x_ptr, a_ptr);",
        "double_1_on_1(call, {1}, y_ptr, b_ptr);",
    ):
        assert lines.count(line) == 1
    assert len(artifact.gpu_kernels) == 1


def test_programs_on_several_gpus_keep_no_memory_of_them() -> None:
    text = TWO.replace("DEVICE", "cuda:1").replace("return %a, %b", "  free %a\nreturn %b")
    assert "wir::Tensor a" in emitted(text).source.partition("void run(")[2]
    alone = text.replace("cuda:1", "cuda:0")
    assert "wir::Tensor a" in emitted(alone).source.partition("void run(")[0]


def test_a_gpu_without_a_number_is_not_beside_others() -> None:
    text = TWO.replace("DEVICE", "cuda").replace("%y : f32[64] @cuda:1", "%y : f32[64] @cuda")
    with pytest.raises(wir.VerificationError, match="cuda and cuda:0 may be one device or two"):
        emitted(text)


@pytest.mark.parametrize("name", ["DISABLE_PTXAS_OPT", "PTXAS_OPTIONS", "TRITON_PTXAS_PATH"])
def test_machine_code_is_kept_by_the_settings_it_was_made_under(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (kernel,) = emitted(triton_text()).gpu_kernels
    monkeypatch.delenv(name, raising=False)
    plain = binary_key(kernel.source, 90)
    monkeypatch.setenv(name, "1")
    assert binary_key(kernel.source, 90) != plain
    monkeypatch.setenv(name, "")
    assert binary_key(kernel.source, 90) == plain


@pytest.mark.parametrize(("mebibytes", "is_kept"), [(4, True), (5, False)])
def test_programs_keep_four_mebibytes_of_scratch_memory_on_a_gpu(
    mebibytes: int, is_kept: bool
) -> None:
    elements = mebibytes * 2**18
    text = f"""
wir 2
program @scratch inference logical

input %x : f32[{elements}] @cuda:0

kernel @copy(x: in f32, y: out f32) triton entry "copy" warps 4 stages 1 SIGNATURE
  | import triton
  | import triton.language as tl
  |
  | @triton.jit
  | def copy(x, y, B: tl.constexpr):
  |     i = tl.program_id(0) * B + tl.arange(0, B)
  |     tl.store(y + i, tl.load(x + i))

extern aten::sum(Tensor self, *, ScalarType? dtype=None) -> Tensor

  %a = allocate : f32[{elements}] @cuda:0
  call @copy(%x, out %a) @cuda:0 grid [{elements // 1024}]
  %y = aten::sum(%a) @cuda:0 : f32[] @cuda:0
return %y
"""
    signature = 'signature {x: "*fp32", y: "*fp32"} constants {B: 1024}'
    text = text.replace("SIGNATURE", signature)
    state = emitted(text).source.partition("struct State {")[2].partition("};")[0]
    assert ("wir::Tensor a" in state) == is_kept
