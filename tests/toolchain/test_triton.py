"""Machine code of Triton kernels: what the cache keeps apart, and what Triton's files say."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch

import wrapper_ir as wir
from tests.emitters.corpus import program
from tests.pages import ROOT
from wrapper_ir.emitters.triton import source_of
from wrapper_ir.lines.kernels import KernelDefinition, TritonKernel
from wrapper_ir.runtime import TritonKernels
from wrapper_ir.toolchain.cache import DiskCache
from wrapper_ir.toolchain.triton import (
    GpuBinary,
    TritonKernelError,
    TritonSource,
    binary_key,
    binary_of_files,
    compiled_binary,
    keep_binary,
)

if TYPE_CHECKING:
    from collections.abc import Callable

SOURCE = TritonSource("relu", {"x": "*fp32:16"}, "no Triton at all", "relu")
PLAIN = GpuBinary(90, b"plain", "relu", 128, 0, 2)
TUNED = GpuBinary(90, b"tuned", "relu", 128, 0, 2)


@pytest.fixture
def cache(tmp_path: Path) -> DiskCache:
    return DiskCache(tmp_path / "cache")


def test_what_a_front_end_compiled_is_loaded_and_never_shipped(cache: DiskCache) -> None:
    keep_binary(SOURCE, TUNED, cache, tuned=True)
    assert compiled_binary(SOURCE, 90, cache, tuned=True) == TUNED
    with pytest.raises(TritonKernelError):  # it would have to be compiled
        compiled_binary(SOURCE, 90, cache)
    keep_binary(SOURCE, PLAIN, cache)
    assert compiled_binary(SOURCE, 90, cache) == PLAIN


def test_what_was_made_of_the_source_is_loaded_too(cache: DiskCache) -> None:
    keep_binary(SOURCE, PLAIN, cache)
    assert compiled_binary(SOURCE, 90, cache, tuned=True) == PLAIN


def test_torchs_own_assembler_is_no_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRITON_PTXAS_PATH", raising=False)
    key = binary_key(SOURCE, 90)
    own = Path(torch.__file__).parent / "bin" / "ptxas"
    monkeypatch.setenv("TRITON_PTXAS_PATH", os.fspath(own))
    assert binary_key(SOURCE, 90) == key
    monkeypatch.setenv("TRITON_PTXAS_PATH", "/opt/ptxas")
    assert binary_key(SOURCE, 90) != key


def folder_of(tmp_path: Path, **changes: object) -> Path:
    """One kernel as Triton's cache has it."""
    about = {
        "name": "relu",
        "target": {"backend": "cuda", "arch": 90, "warp_size": 32},
        "num_warps": 8,
        "num_ctas": 1,
        "shared": 512,
        "global_scratch_size": 0,
        "profile_scratch_size": 0,
        "launch_cooperative_grid": True,
        **changes,
    }
    (tmp_path / "relu.json").write_text(json.dumps(about))
    (tmp_path / "__grp__relu.json").write_text("{}")
    (tmp_path / "relu.cubin").write_bytes(b"code")
    return tmp_path


def test_triton_s_files_are_read(tmp_path: Path) -> None:
    found = binary_of_files("relu", folder_of(tmp_path))
    assert found == GpuBinary(90, b"code", "relu", 256, 512, 2, cooperative=True)
    found = binary_of_files("relu", folder_of(tmp_path, global_scratch_size=64))
    assert (found.scratch, found.unused) == (64, 1)


@pytest.mark.parametrize("changes", [{"num_ctas": 2}, {"profile_scratch_size": 8}])
def test_what_cannot_be_launched_is_refused(tmp_path: Path, changes: dict[str, int]) -> None:
    with pytest.raises(TritonKernelError):
        binary_of_files("relu", folder_of(tmp_path, **changes))


def test_no_kernel_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not enough values"):
        binary_of_files("relu", tmp_path)


_COMPILES = """
import sys
from dataclasses import replace
from pathlib import Path
from tests.emitters.corpus import program
from wrapper_ir.emitters.triton import source_of
from wrapper_ir.lines.kernels import KernelDefinition, TritonKernel
from wrapper_ir.toolchain.cache import DiskCache
from wrapper_ir.toolchain.triton import compiled_binary

kernels = [line for line in program("triton").body if isinstance(line, KernelDefinition)]
(kernel, *_) = [each for each in kernels if isinstance(each.source, TritonKernel)]
source = replace(source_of(kernel.name, kernel.source), options={})
compiled_binary(source, 90, DiskCache(Path(sys.argv[1])))
print("triton._C.libtriton" in sys.modules)
"""


def test_a_script_that_compiled_a_kernel_ends_without_reports_of_leaks(tmp_path: Path) -> None:
    """Nothing of ours keeps Triton's objects alive when a process ends."""
    pytest.importorskip("triton._C.libtriton")
    command = [sys.executable, "-c", _COMPILES, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr
    assert "nanobind" not in done.stderr


def test_emitted_text_asks_for_the_same_machine_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else what a front end keeps would never be found."""
    asked: list[TritonSource] = []

    def load(kernels: Any) -> tuple[Callable[..., None], ...]:
        asked.extend(kernels._sources.values())
        return (lambda *_: None,) * len(kernels._sources)

    monkeypatch.setattr(TritonKernels, "load", load)
    made = program("triton")
    wir.emit(made, "python").load()
    in_cpp: Any = wir.emit(made, "cpp")
    wanted = {
        source_of(line.name, line.source).identity
        for line in made.body
        if isinstance(line, KernelDefinition) and isinstance(line.source, TritonKernel)
    }
    assert {each.identity for each in asked} == wanted
    assert {each.source.identity for each in in_cpp.gpu_kernels} == wanted
