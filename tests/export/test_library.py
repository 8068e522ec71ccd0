"""Libraries: what is in the file, how they are built, how building fails."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Any

import pytest
import torch

import wrapper_ir as wir
from tests.export.support import BROKEN, PLAIN, captured, nested, plus_one, run
from wrapper_ir.aot.build import library as building
from wrapper_ir.aot.build.kernels import isa_of, kernel_translations
from wrapper_ir.errors import OptionError, OptionValueError
from wrapper_ir.toolchain.compiler import find_compiler
from wrapper_ir.toolchain.errors import CompileError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return wir.export(captured(), tmp_path_factory.mktemp("library") / "nested.so")


def _says(*command: str | Path) -> str:
    return subprocess.run(
        [str(word) for word in command],
        check=True,
        capture_output=True,
        text=True,
        errors="replace",  # strings shows bytes that are no text
    ).stdout


def test_it_gives_what_the_python_emitter_gives(library: Path) -> None:
    _, x, shift = nested()
    wanted = wir.compile(captured())(x, shift)
    got = run(library, x, shift)
    assert all(torch.equal(a, b) for a, b in zip(got, wanted, strict=True))


def test_the_stack_is_not_executable(library: Path) -> None:
    stack = next(line for line in _says("readelf", "-lW", library).splitlines() if "STACK" in line)
    assert " RW " in stack


def test_no_path_of_this_machine_is_inside(library: Path) -> None:
    strings = _says("strings", "-n", "5", library)
    for path in (torch.__path__[0], str(library.parent), "/tmp/", "site-packages", "/home/"):
        assert path not in strings
    dynamic = _says("readelf", "-dW", library)
    assert "RPATH" not in dynamic
    assert "RUNPATH" not in dynamic
    assert "libtorch_cpu.so" in dynamic


def test_it_shows_the_interface_and_nothing_else(library: Path) -> None:
    lines = _says("nm", "-D", "--defined-only", library).splitlines()
    names = {line.split()[-1].split("@")[0] for line in lines}
    assert "AOTInductorModelContainerRun" in names
    assert {n for n in names if not n.startswith(("AOTInductor", "WrapperIR", "wir_"))} == set()


def test_it_is_small(library: Path) -> None:
    """Two linear layers: 1.5 MB by stock AOTInductor, 368 kB when stripped of debug information."""
    assert library.stat().st_size < 150_000


@pytest.mark.long
def test_debug_information_lies_in_a_file_of_its_own(tmp_path: Path) -> None:
    wir.export(plus_one(), tmp_path / "m.so", debug_info=True)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["m.so", "m.so.debug"]
    assert "m.so.debug" in _says("readelf", "--string-dump=.gnu_debuglink", tmp_path / "m.so")
    assert ".debug_info" in _says("readelf", "-SW", tmp_path / "m.so.debug")
    assert ".debug_info" not in _says("readelf", "-SW", tmp_path / "m.so")
    assert torch.__path__[0] not in _says("strings", tmp_path / "m.so.debug")
    assert run(tmp_path / "m.so", torch.zeros(4))[0].tolist() == [1.0] * 4


def test_constants_beside_it_are_found_there_and_missed_elsewhere(tmp_path: Path) -> None:
    _, x, shift = nested()
    file = wir.export(captured(), tmp_path / "m.so", constants="beside")
    assert (tmp_path / "m.constants").is_file()
    assert len(run(file, x, shift)) == 3
    (tmp_path / "m.constants").rename(tmp_path / "elsewhere")
    with pytest.raises(RuntimeError):
        run(file, x, shift)


def test_a_kernel_that_does_not_compile_is_one_error_with_its_lines(tmp_path: Path) -> None:
    with pytest.raises(CompileError) as caught:
        wir.export(plus_one(BROKEN), tmp_path / "m.so")
    text = str(caught.value)
    assert "kernel 'plus_0' does not compile" in text
    assert ">    3 |     for (int64_t i = 0; i < n; ++i) y[i] = nonsense(x[i]);" in text
    assert "g++" in text


def test_a_second_build_compiles_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    artifact: Any = wir.emit(plus_one(), "cpp")
    artifact.export(tmp_path / "first.so")
    started = _watch(monkeypatch)
    artifact.export(tmp_path / "second.so")
    assert [" -c " in command for command in started] == [False]  # the link
    assert (tmp_path / "first.so").read_bytes() == (tmp_path / "second.so").read_bytes()


def test_kernels_known_already_are_not_compiled_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wir.export(plus_one(), tmp_path / "m.so")
    started = _watch(monkeypatch)
    wir.export(plus_one().replace(name="another"), tmp_path / "n.so")
    assert [command for command in started if "kernels.cpp" in command] == []
    assert [command for command in started if "program.cpp" in command] != []


def _watch(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The commands that are started from now on."""
    from wrapper_ir.toolchain import compiler

    started: list[str] = []
    plain = compiler.run

    def noting(command: list[str], *, cwd: Path | None = None) -> None:
        started.append(" ".join(command))
        plain(command, cwd=cwd)

    monkeypatch.setattr(compiler, "run", noting)
    return started


def test_progress_is_told_and_ends(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    wir.export(
        plus_one(), tmp_path / "m.so", progress=lambda done, total: seen.append((done, total))
    )
    assert [done for done, _ in seen] == list(range(1, len(seen) + 1))
    assert seen[-1][0] == seen[-1][1]


def test_a_library_for_our_own_loader_shows_one_symbol() -> None:
    file = building.build_loadable(wir.emit(plus_one(), "cpp"))
    lines = _says("nm", "-D", "--defined-only", file).splitlines()
    assert [line.split()[-1] for line in lines] == ["wir_program_info"]
    assert building.build_loadable(wir.emit(plus_one(), "cpp")) == file


@pytest.mark.parametrize(
    ("option", "value"),
    [("constants", "inside"), ("isa", "avx2"), ("jobs", 0), ("debug_info", "yes")],
)
def test_values_that_are_not_legal_are_refused(tmp_path: Path, option: str, value: object) -> None:
    with pytest.raises(OptionValueError, match=option):
        wir.export(plus_one(), tmp_path / "m.so", **{option: value})


def test_options_that_do_not_exist_are_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="optimise"):
        wir.export(plus_one(), tmp_path / "m.so", optimise=True)
    with pytest.raises(OptionError, match="optimise"):
        wir.emit(plus_one(), "cpp").export(tmp_path / "m.so", optimise=True)


def test_kernels_are_dealt_out_by_their_cost_alone() -> None:
    """What a library consists of must not depend on anything but the program."""
    padded = PLAIN + "// " + "x" * 30_000 + "\n"
    artifact: Any = wir.emit(plus_one(padded, extra=3), "cpp")
    compiler = find_compiler()
    chosen = [(kernel, isa_of(kernel.source, "x86-64-v2")) for kernel in artifact.kernels]
    files = kernel_translations(chosen, compiler, ())
    assert 1 < len(files) < len(chosen)
    again = kernel_translations(chosen[::-1], compiler, ())
    assert [file.text for file in again] == [file.text for file in files]
