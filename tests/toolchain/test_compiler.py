from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.release import TORCH
from wrapper_ir.toolchain import compiler as compiler_module
from wrapper_ir.toolchain.compiler import (
    CompilerRunError,
    compile_flags,
    find_compiler,
    include_dirs,
    parse_version,
    run,
)
from wrapper_ir.toolchain.errors import CompilerNotFoundError, CompilerTooOldError, shortened
from wrapper_ir.toolchain.isa import detect

if TYPE_CHECKING:
    from wrapper_ir.toolchain.cache import DiskCache

GCC = """\
Target: x86_64-linux-gnu
gcc version 12.2.0 (Debian 12.2.0-14+deb12u1)
"""
CLANG = """\
Debian clang version 14.0.6
Target: x86_64-pc-linux-gnu
"""

#: What stock passes and we do not: it changes no instruction.
ONLY_STOCK = {
    "-g1",
    "-shared",
    "-Wall",
    "-Wno-unused-variable",
    "-Wno-unknown-pragmas",
    "-pedantic",
}

#: Flags of ours, those of PyTorch 2.13, in the place of what earlier releases pass.
BEFORE_2_13 = {"-std=c++17": "-std=c++20", "-fno-math-errno": "-fmath-errno"}
#: Flags that earlier releases do not pass; 2.12 passes the first.
NOT_BEFORE_2_13 = {"-DTORCH_INDUCTOR_PRECOMPILE_HEADERS", "-fno-omit-frame-pointer"}


def stock_command() -> list[str]:
    from torch._inductor import config
    from torch._inductor.cpp_builder import CppBuilder, CppTorchDeviceOptions
    from torch._inductor.cpu_vec_isa import pick_vec_isa

    with config.patch({"cpp.vec_isa_ok": True}):
        options = CppTorchDeviceOptions(
            vec_isa=pick_vec_isa(), device_type="cpu", include_pytorch=False, shared=True
        )
        line = CppBuilder(name="o", sources="i.cpp", BuildOption=options).get_command_line()
    return shlex.split(re.sub(r"-D\s+", "-D", line))


def test_flags_are_those_of_inductor() -> None:
    stock = stock_command()
    before_link = stock[: stock.index("-o")]
    theirs = [w for w in before_link if w.startswith("-") and not w.startswith("-I")]
    if TORCH < (2, 13):
        theirs = [BEFORE_2_13.get(word, word) for word in theirs]
    ours = [*compile_flags(find_compiler(), detect())]
    assert set(theirs) - set(ours) == ONLY_STOCK & set(theirs)
    if TORCH < (2, 13):
        passed = set(theirs)
        ours = [word for word in ours if word in passed or word not in NOT_BEFORE_2_13]
    assert set(ours) - set(theirs) == {"-w"}
    # Later floating-point flags undo earlier ones, so their order counts, but for the one of errno.
    math = [w for w in theirs if w.startswith("-f") and not w.endswith("-errno")]
    assert [w for w in ours if w in math] == math


def test_headers_are_those_of_inductor() -> None:
    theirs = [word[2:] for word in stock_command() if word.startswith("-I")]
    assert [str(path) for path in include_dirs()] == theirs


def test_the_environment_names_the_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "env g++")
    found = find_compiler()
    assert found.command == ("env", "g++")
    assert found.executable.name.endswith(("g++", f"g++-{found.major}"))


@pytest.mark.parametrize("words", ["g++ -std=c++11", "env g++ -std=c++11 -isystem /nowhere"])
def test_the_environment_may_name_options(words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", words)
    found = find_compiler()
    assert found.command == tuple(words.split())
    assert found.executable.name.endswith(("g++", f"g++-{found.major}"))
    monkeypatch.setenv("CXX", "g++")
    assert find_compiler().version != found.version  # by which the cache tells objects apart


@pytest.mark.parametrize(
    ("version", "least"),
    [("gcc version 9.4.0 (Ubuntu)", "g\\+\\+ 10"), ("Debian clang version 9.0.1", "clang")],
)
def test_a_compiler_that_is_too_old(
    version: str, least: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "c++"
    script.write_text(f"#!/bin/sh\necho '{version}'\n")
    script.chmod(0o700)
    monkeypatch.setenv("CXX", str(script))
    with pytest.raises(CompilerTooOldError, match="too old") as caught:
        find_compiler()
    assert re.search(least, str(caught.value.hint))
    assert len(str(caught.value)) < 600


def test_what_a_compiler_says_is_cut() -> None:
    said = "\n".join(f"error: {'std::tuple<' * 1000} {number}" for number in range(500))
    assert len(shortened(said)) < 20_000
    assert "452 more lines" in shortened(said)


def test_no_compiler_is_an_error_with_a_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(CompilerNotFoundError, match="no-such-compiler") as caught:
        find_compiler()
    assert "CXX" in str(caught.value.hint)


def test_a_compiler_that_does_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "false")
    with pytest.raises(CompilerNotFoundError, match="does not run"):
        find_compiler()


def test_the_version_is_remembered_on_disk(
    cache: DiskCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiler_module, "_KNOWN", {})
    asked = find_compiler(cache)
    monkeypatch.setattr(compiler_module, "_KNOWN", {})  # another process
    monkeypatch.setattr(subprocess, "run", lambda *_a, **_k: pytest.fail("started a compiler"))
    assert find_compiler(cache) == asked


def test_a_new_compiler_at_the_same_place_is_asked_again(
    tmp_path: Path, cache: DiskCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "c++"
    monkeypatch.setenv("CXX", str(script))
    for version in ("12.1.0", "13.0.0"):
        script.write_text(f"#!/bin/sh\necho gcc version {version} {'x' * len(version)}\n")
        script.chmod(0o700)
        script.write_text(script.read_text() + "#" * int(version[:2]))
        assert find_compiler(cache).major == int(version[:2])


def test_versions_are_read() -> None:
    gcc = parse_version(("g++",), Path("g++"), GCC)
    assert (gcc.major, gcc.clang, gcc.gcc_major) == (12, False, 12)
    clang = parse_version(("clang++",), Path("clang++"), CLANG)
    assert (clang.major, clang.clang) == (14, True)
    assert "-fno-tree-loop-vectorize" not in compile_flags(clang, detect())


def test_a_failed_run_keeps_command_and_output(tmp_path: Path) -> None:
    with pytest.raises(CompilerRunError) as caught:
        run(["g++", str(tmp_path / "absent file.cpp")])
    assert "absent file.cpp'" in caught.value.command
    assert "No such file" in caught.value.output
