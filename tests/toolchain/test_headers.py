"""Precompiled headers: when they are begun, used, and given up. A small one stands for the big."""

from __future__ import annotations

import subprocess
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
import torch

from tests.toolchain.conftest import SCALE, SCALE_TYPES
from wrapper_ir.toolchain import build, headers, kernel_files, kernels
from wrapper_ir.toolchain.cache import DiskCache
from wrapper_ir.toolchain.compiler import compile_flags, find_compiler, include_flags
from wrapper_ir.toolchain.errors import CompileError
from wrapper_ir.toolchain.headers import HeaderStore
from wrapper_ir.toolchain.isa import resolve
from wrapper_ir.toolchain.kernels import build_kernels, prepare
from wrapper_ir.toolchain.source import CppSource

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def small_prefix(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ``cmath`` be the header that is precompiled; the real one takes six seconds."""
    for module in (build, headers, kernel_files, kernels):
        monkeypatch.setattr(module, "PREFIX", "cmath")
    monkeypatch.setattr(headers, "_watched", tuple)
    monkeypatch.delenv("WRAPPER_IR_HEADER_DIR", raising=False)
    monkeypatch.delenv("WRAPPER_IR_PRECOMPILE_HEADERS", raising=False)


#: How the call of a compiler ends that is given the header for a kernel.
READ = "/prefix.h\n"


def kernel(factor: int) -> CppSource:
    code = SCALE.replace("FACTOR", f"std::fabs({factor}.0f)")
    return CppSource("k", f"#include <cmath>\n{code}", SCALE_TYPES)


def check(cache: DiskCache, factor: int) -> None:
    (function,) = build_kernels([kernel(factor)], cache=cache)
    out = torch.empty(1)
    function(torch.ones(1), out, 1)
    assert out.item() == factor


def made_header(cache: DiskCache) -> Path:
    (found,) = cache.directory.glob("headers/*/prefix.h.gch")
    return found


def test_it_holds_what_kernels_read_that_python_calls(cache: DiskCache, tmp_path: Path) -> None:
    check(cache, 2)
    compiler, header = find_compiler(cache), made_header(cache).with_suffix("")
    flags = build.Target(resolve()).flags(compiler)
    file = tmp_path / "bindings.cpp"
    file.write_text('#include <cmath>\n#include "python/kernel.h"\n')
    command = [*compiler.command, *flags, *include_flags(), "-H", "-fsyntax-only", str(file)]
    alone = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    command += ["-include", str(header)]
    beside = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    assert "Python.h" in alone
    assert "Python.h" not in beside


def test_the_first_build_makes_it_and_all_use_it(cache: DiskCache, counting_compiler: Path) -> None:
    check(cache, 2)
    assert made_header(cache).exists()
    check(cache, 3)
    calls = counting_compiler.read_text()
    assert calls.count("c++-header") == 1
    assert calls.count(READ) == 2
    assert cache.stats().total_bytes > 500_000  # the header counts


@pytest.mark.long
def test_builds_at_the_same_time_make_one(cache: DiskCache, counting_compiler: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda factor: check(cache, factor), range(2, 6)))
    calls = counting_compiler.read_text()
    assert calls.count("c++-header") == 1
    assert calls.count(READ) == 4


def test_one_begun_in_the_background_is_waited_for(
    cache: DiskCache, counting_compiler: Path
) -> None:
    prepare(cache=cache)
    check(cache, 2)
    calls = counting_compiler.read_text()
    assert calls.count("c++-header") == 1
    assert calls.count(READ) == 1


@pytest.mark.long
def test_a_damaged_header_is_made_anew(cache: DiskCache, counting_compiler: Path) -> None:
    check(cache, 2)
    file = made_header(cache)
    content = file.read_bytes()
    half = len(content) // 2
    damaged = content[:half] + b"\xff" * (len(content) - half)
    file.write_bytes(damaged)
    check(cache, 5)
    assert counting_compiler.read_text().count("c++-header") == 2
    assert made_header(cache).read_bytes() != damaged


@pytest.mark.long
def test_a_header_that_the_compiler_refuses_is_given_up(
    cache: DiskCache, counting_compiler: Path
) -> None:
    check(cache, 2)
    file = made_header(cache)
    file.write_bytes(b"not a precompiled header")  # which g++ passes over, reading the text
    file.with_name("prefix.h").write_text("#error damaged\n")
    file.with_name("prefix.h.gch.crc").write_text(headers._checksum(file))
    check(cache, 5)
    calls = counting_compiler.read_text()
    assert calls.count(READ) == 2
    assert calls.count(" -c u0.cpp") == 3  # the second build tried with it, then without
    assert not file.exists()


def instances(store: HeaderStore, folder: Path, *, precompiled: bool) -> int:
    """Return how many functions g++ goes through for an empty file that reads ``<string>``."""
    compiler, flags = find_compiler(), ("-std=c++20", "-O1", headers.INSTANCES)
    header = store.get(compiler, flags) if precompiled else None
    read = ["-include", str(header) if header else "string"]
    (folder / "empty.cpp").touch()
    seen = folder / f"seen-{precompiled}"
    command = [*compiler.command, *flags, *read, f"-fdump-tree-original={seen}"]
    subprocess.run([*command, "-c", "empty.cpp", "-o", "empty.o"], check=True, cwd=folder)
    return seen.read_text().count(";; Function") if seen.exists() else 0


def test_templates_are_instantiated_in_the_header(tmp_path: Path, cache: DiskCache) -> None:
    store = HeaderStore(cache, "test", "string")
    assert instances(store, tmp_path, precompiled=True) == 0
    assert instances(store, tmp_path, precompiled=False) > 50


def test_a_compiler_without_plugins_leaves_them_to_each_file(
    tmp_path: Path, cache: DiskCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusing = tmp_path / "g++-refusing"
    refusing.write_text('#!/bin/sh\ncase "$*" in *-fplugin*) exit 1;; esac\nexec g++ "$@"\n')
    refusing.chmod(0o755)
    monkeypatch.setenv("CXX", str(refusing))
    store = HeaderStore(DiskCache(tmp_path / "other"), "test", "string")
    assert instances(store, tmp_path, precompiled=True) > 50
    check(cache, 2)
    assert made_header(cache).exists()


def test_an_error_in_a_kernel_is_not_blamed_on_the_header(cache: DiskCache) -> None:
    check(cache, 2)
    bad = CppSource("k", "#include <cmath>\nvoid kernel(float* x) { *x = nothing; }", ("float*",))
    with pytest.raises(CompileError, match="kernel 'k' does not compile"):
        build_kernels([bad], cache=cache)
    assert made_header(cache).exists()


def test_a_header_that_cannot_be_made_is_done_without(
    tmp_path: Path, cache: DiskCache, monkeypatch: pytest.MonkeyPatch, counting_compiler: Path
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("WRAPPER_IR_HEADER_DIR", str(tmp_path / "file"))
    check(cache, 2)
    assert READ not in counting_compiler.read_text()


def test_a_small_cache_makes_none(tmp_path: Path, counting_compiler: Path) -> None:
    cache = DiskCache(tmp_path, max_bytes=1 << 20)
    check(cache, 2)
    check(cache, 3)
    assert not (tmp_path / "headers").exists()


def test_they_can_be_turned_off(
    cache: DiskCache, monkeypatch: pytest.MonkeyPatch, counting_compiler: Path
) -> None:
    monkeypatch.setenv("WRAPPER_IR_PRECOMPILE_HEADERS", "0")
    check(cache, 2)
    check(cache, 3)
    assert not (cache.directory / "headers").exists()


def test_caches_may_share_headers(
    tmp_path: Path, cache: DiskCache, monkeypatch: pytest.MonkeyPatch, counting_compiler: Path
) -> None:
    monkeypatch.setenv("WRAPPER_IR_HEADER_DIR", str(tmp_path / "shared"))
    compiler = find_compiler(cache)
    flags = compile_flags(compiler, resolve())
    store = HeaderStore(cache, "test", "cmath")
    assert store.find(compiler, flags) is None
    header = store.get(compiler, flags)
    assert header is not None
    assert header.is_relative_to(tmp_path / "shared")
    other = HeaderStore(DiskCache(tmp_path / "other"), "test", "cmath")
    assert other.find(compiler, flags) == header
    assert other.find(compiler, (*flags, "-DX")) is None
    store.discard(compiler, flags)
    assert other.find(compiler, flags) is None


def test_kernels_without_the_big_header_want_none(
    cache: DiskCache, counting_compiler: Path
) -> None:
    for factor in ("2.0f", "3.0f"):
        source = CppSource("k", SCALE.replace("FACTOR", factor), SCALE_TYPES)
        build_kernels([source], cache=cache)
    assert not (cache.directory / "headers").exists()
