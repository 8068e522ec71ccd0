"""Object files in the cache, and what the linker makes of them."""

from __future__ import annotations

import ctypes
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from wrapper_ir.toolchain import compiler as cxx
from wrapper_ir.toolchain.cache import DiskCache
from wrapper_ir.toolchain.compiler import NATIVE, find_compiler, generated_flags, stand_in
from wrapper_ir.toolchain.errors import CompileError, LinkError
from wrapper_ir.toolchain.objects import (
    Tools,
    Translation,
    assemble,
    compile_file,
    compile_files,
    link,
    split_debug_information,
)
from wrapper_ir.toolchain.processes import pool

if TYPE_CHECKING:
    from pathlib import Path

ANSWER = 'extern "C" __attribute__((visibility("default"))) int answer() { return 42; }\n'


def translation(text: str = ANSWER, **changes: object) -> Translation:
    flags = generated_flags(find_compiler())
    fields: dict[str, object] = {"name": "a.cpp", "text": text, "flags": flags, "what": "file 'a'"}
    return Translation(**{**fields, **changes})


def compiled(cache: DiskCache, *translations: Translation) -> list[Path]:
    with pool(2) as threads:
        coming = compile_files(translations, Tools(find_compiler(), cache), threads)
        return [one.result() for one in coming]


def test_equal_text_is_compiled_once_and_to_equal_bytes(tmp_path: Path) -> None:
    first, second = DiskCache(tmp_path / "a"), DiskCache(tmp_path / "longer" / "b")
    here, again = compiled(first, translation(), translation())
    (there,) = compiled(second, translation())
    assert here == again
    assert here.read_bytes() == there.read_bytes()
    assert str(tmp_path).encode() not in here.read_bytes()


def test_debug_information_names_no_directory_either(tmp_path: Path) -> None:
    flags = (*generated_flags(find_compiler()), "-g")
    text = "#include <vector>\n#include <c10/util/Half.h>\n" + ANSWER
    files = [
        compiled(DiskCache(tmp_path / name), translation(text, flags=flags))[0] for name in "ab"
    ]
    assert files[0].read_bytes() == files[1].read_bytes()
    assert str(tmp_path).encode() not in files[0].read_bytes()
    assert b"site-packages" not in files[0].read_bytes()


@pytest.mark.parametrize(
    "changes",
    [{"text": ANSWER + "\n"}, {"flags": ("-O0",)}, {"processor": "another"}, {"name": "b.cpp"}],
)
def test_whatever_the_object_depends_on_is_in_its_key(changes: dict[str, object]) -> None:
    compiler = find_compiler()
    assert translation(**changes).key(compiler) != translation().key(compiler)


def test_headers_lie_beside_the_file_and_are_in_its_key(tmp_path: Path) -> None:
    text = '#include "answer.h"\n'
    with_header = translation(text, headers=(("answer.h", ANSWER),))
    compiled(DiskCache(tmp_path), with_header)
    other = translation(text, headers=(("answer.h", ANSWER.replace("42", "43")),))
    assert with_header.key(find_compiler()) != other.key(find_compiler())


def test_a_damaged_object_is_made_again(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path)
    (file,) = compiled(cache, translation())
    whole = file.read_bytes()
    file.write_bytes(whole[:100] + b"?" + whole[101:])
    assert compiled(cache, translation())[0].read_bytes() == whole


def test_a_compile_error_shows_the_lines_and_the_command(tmp_path: Path) -> None:
    with pytest.raises(CompileError) as caught:
        compiled(DiskCache(tmp_path), translation("int one;\nint two\nint three;\n"))
    text = str(caught.value)
    assert "file 'a' does not compile" in text
    assert "int two" in text
    assert ">    3 | int three;" in text or ">    2 | int two" in text
    assert "-c a.cpp" in text


def test_a_compile_error_in_a_part_names_the_part(tmp_path: Path) -> None:
    part = "int good;\nint bad = nonsense;\n"
    text = f'int first;\n#line 1 "part.cpp"\n{part}'
    with pytest.raises(CompileError) as caught:
        compiled(DiskCache(tmp_path), translation(text, parts={"part.cpp": ("the part", part)}))
    assert "the part does not compile" in str(caught.value)
    assert ">    2 | int bad = nonsense;" in str(caught.value)


def test_a_hint_belongs_to_what_the_compiler_says(tmp_path: Path) -> None:
    hints = {"no such thing": "not this one", "nonsense": "say something else"}
    with pytest.raises(CompileError) as caught:
        compiled(DiskCache(tmp_path), translation("int bad = nonsense;\n", hints=hints))
    assert caught.value.hint == "say something else"


def test_missing_headers_of_python_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = cxx.include_dirs()[1:]
    monkeypatch.setattr(cxx, "include_dirs", lambda: (tmp_path, *torch))
    with pytest.raises(CompileError) as caught:
        compiled(DiskCache(tmp_path), translation("#include <Python.h>\n", hints={"": "other"}))
    assert "install the headers of Python: " in str(caught.value.hint)
    assert "/Python.h is in python3." in str(caught.value.hint)


def test_our_own_files_are_found_and_are_in_the_key(tmp_path: Path) -> None:
    read = NATIVE / "src" / "heap.h"
    reading = translation(f'#include "src/heap.h"\n{ANSWER}', reads=(read,))
    (file,) = compiled(DiskCache(tmp_path), reading)
    assert str(NATIVE).encode() not in file.read_bytes()
    assert reading.key(find_compiler()) != replace(reading, reads=()).key(find_compiler())


def test_objects_in_a_folder_are_those_of_the_cache(tmp_path: Path) -> None:
    tools = Tools(find_compiler(), DiskCache(tmp_path / "cache"))
    (tmp_path / "folder").mkdir()
    file = compile_file(translation(), tools, tmp_path / "folder")
    assert file == tmp_path / "folder" / "a.o"
    assert not tools.cache.stats().entries
    assert compile_file(translation(), tools).read_bytes().startswith(file.read_bytes())


def test_progress_is_told_for_what_is_found_too(tmp_path: Path) -> None:
    told: list[None] = []
    tools = Tools(find_compiler(), DiskCache(tmp_path))
    for _ in range(2):
        with pool(1) as threads:
            (coming,) = compile_files([translation()], tools, threads, lambda: told.append(None))
            coming.result()
    assert len(told) == 2


def test_linking_gives_a_library_that_needs_torch_by_name_alone(tmp_path: Path) -> None:
    import torch  # noqa: F401 - the library is loaded beside it

    cache, library = DiskCache(tmp_path / "cache"), tmp_path / "a.so"
    objects = compiled(cache, translation())
    torch_library = stand_in(cache, find_compiler())
    assert stand_in(cache, find_compiler()) == torch_library
    exports = "{ global: answer; local: *; };\n"
    link(find_compiler(), [*objects, torch_library], library, exports=exports)
    assert ctypes.CDLL(str(library)).answer() == 42
    dynamic = subprocess.run(
        ["readelf", "-dW", str(library)], check=True, capture_output=True, text=True
    ).stdout
    assert "[libtorch_cpu.so]" in dynamic
    assert "PATH" not in dynamic
    assert [file.name for file in tmp_path.iterdir() if file.is_file()] == ["a.so"]


def test_objects_that_do_not_fit_are_a_link_error(tmp_path: Path) -> None:
    objects = compiled(DiskCache(tmp_path), translation(), translation(name="b.cpp"))
    with pytest.raises(LinkError, match="answer"):
        link(find_compiler(), objects, tmp_path / "a.so")


def test_faults_of_the_assembler_and_of_objcopy_are_link_errors(tmp_path: Path) -> None:
    (tmp_path / "a.s").write_text("\tno such instruction\n")
    with pytest.raises(LinkError, match="no such instruction"):
        assemble(find_compiler(), tmp_path / "a.s")
    (tmp_path / "a.so").write_text("no library")
    with pytest.raises(LinkError, match="objcopy"):
        split_debug_information(tmp_path / "a.so", tmp_path / "a.so.debug")
