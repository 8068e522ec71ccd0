"""The text of generated files: as reviewed, the same every time, and safe whatever it quotes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import clang_format
import pytest
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

import wrapper_ir as wir
from tests.emitters.corpus import CASES, FILES, PROBED, TEXT_ONLY, program
from tests.emitters.cpp.compiling import check_syntax, preprocess
from wrapper_ir.aot.emitter import CppArtifact, CppEmitter
from wrapper_ir.devices import CUDA
from wrapper_ir.emitters import EmitError
from wrapper_ir.emitters.cpp.context import make_names
from wrapper_ir.emitters.cpp.literals import comment, string
from wrapper_ir.errors import OptionValueError
from wrapper_ir.lines import CPU, Allocate, Comment, DType, FrozenMap, Layout, Program, Stage
from wrapper_ir.toolchain.manifest import Part, needed_parts

if TYPE_CHECKING:
    from syrupy.assertion import SnapshotAssertion

ROOT = Path(__file__).parents[3]

SHOWN = (
    *("aliases", "arguments", "collectives", "comments", "cond_nested", "constants", "device_zoo"),
    *("branches", "dynamic_shapes", "expressions", "extern_out", "item", "names", "peers", "pools"),
    *("probes", "results", "switch", "symbols", "triton", "views", "while", "while_stacked"),
)

REFUSED = {
    "devices_and_streams": "in C++ all streams must be of one device",
    "streams": "its memory is from memory pool 1, which only emitted Python can look up",
}


class CppFile(SingleFileSnapshotExtension):
    """Snapshots are files that a compiler can read."""

    _write_mode = WriteMode.TEXT
    file_extension = "cpp"


@pytest.fixture
def snapshot(snapshot: SnapshotAssertion) -> SnapshotAssertion:
    return snapshot.use_extension(CppFile)


def emitted(made: Program, **options: object) -> CppArtifact:
    artifact = wir.emit(made, "cpp", **options)
    assert isinstance(artifact, CppArtifact)
    return artifact


@pytest.mark.parametrize("name", SHOWN)
def test_text(name: str, snapshot: SnapshotAssertion) -> None:
    assert formatted(emitted(program(name)).source) == snapshot(name=name)


@pytest.mark.parametrize("name", ["pools", "pools_symbolic"])
def test_text_with_kept_arenas(name: str, snapshot: SnapshotAssertion) -> None:
    assert formatted(emitted(program(name), arena="kept").source) == snapshot(name=name)


@pytest.mark.parametrize("name", ["dynamic_shapes", "results"])
def test_text_that_takes_memory_for_results(name: str, snapshot: SnapshotAssertion) -> None:
    assert formatted(emitted(program(name), out=True).source) == snapshot(name=name)


@pytest.mark.parametrize(
    ("name", "options", "parts"),
    [
        ("aliases", {}, {Part.OPS}),
        ("pools_symbolic", {}, set()),
        ("pools_symbolic", {"arena": "kept"}, {Part.HEAP}),
        ("probes", {}, {Part.PROBES}),
        ("triton", {}, {Part.GPU}),
        ("triton", {"cuda_graph": True}, {Part.GPU, Part.GRAPHS}),
    ],
)
def test_the_manifest_names_parts_of_the_runtime(
    name: str, options: dict[str, object], parts: set[Part]
) -> None:
    artifact = emitted(program(name), **options)
    assert artifact.manifest.parts == needed_parts(parts, alone=True) == parts
    assert (artifact.manifest.device is CUDA) == (Part.GPU in parts)
    listed = f"parts={json.dumps(sorted(map(str, parts)))}"
    assert (listed in artifact.as_module().source) == bool(parts)


def test_words_in_comments_decide_nothing() -> None:
    quiet = program("pools_symbolic")
    remark = Comment("the state of an Op and a Method: wir::Heap, wir::GpuCall, kProbes")
    artifact = emitted(quiet.replace(body=(remark, *quiet.body)))
    assert remark.text in artifact.source
    assert artifact.manifest.parts == set()
    assert "State& state" not in artifact.source


def formatted(source: str) -> str:
    """The text as clang-format writes it, in the style of ``.clang-format``: for reviewers."""
    style = f"--style=file:{ROOT / '.clang-format'}"
    tool = Path(clang_format.__file__).parent / "data" / "bin" / "clang-format"
    command = [str(tool), style, "--assume-filename=program.cpp"]
    return subprocess.run(command, input=source, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("name", CASES)
def test_lines_are_short_and_clean(name: str) -> None:
    for line in emitted(program(name), origins=True).source.splitlines():
        assert line == line.rstrip()
        assert len(line) <= 100


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_rendered_is_said_all_at_once(name: str) -> None:
    with pytest.raises(EmitError, match=re.escape(REFUSED[name])) as caught:
        CppEmitter().emit(program(name))
    count = {"devices_and_streams": 13, "streams": 2}.get(name, 1)
    assert len(caught.value.problems) == count


def test_every_program_is_rendered_or_refused() -> None:
    shown = {*TEXT_ONLY, "triton"} - REFUSED.keys()
    assert FILES.keys() == CASES.keys() | PROBED.keys() | REFUSED.keys() | shown


def test_the_same_text_in_another_process() -> None:
    names = ("constants", "cond_nested", "while_stacked", "pools_symbolic")
    script = (
        "import sys, wrapper_ir as wir\n"
        "for path in sys.argv[1:]:\n"
        "    made = wir.parse(open(path).read())\n"
        "    print(wir.emit(made, 'cpp').source)\n"
    )
    paths = [str(FILES[name]) for name in names]
    environment = {**os.environ, "PYTHONHASHSEED": "77"}
    done = subprocess.run(
        [sys.executable, "-c", script, *paths],
        capture_output=True,
        text=True,
        env=environment,
        check=True,
    )
    here = [wir.emit(wir.parse(FILES[name].read_text()), "cpp").source for name in names]
    assert done.stdout == "".join(f"{text}\n" for text in here)


def test_options() -> None:
    with pytest.raises(OptionValueError, match="origins"):
        CppEmitter(origins="yes")
    with pytest.raises(OptionValueError, match="out"):
        CppEmitter(out=1)
    with pytest.raises(OptionValueError, match="scratch_bytes"):
        CppEmitter(scratch_bytes=True)
    with pytest.raises(OptionValueError, match="one of 'call', 'kept'"):
        CppEmitter(arena="forever")
    made = program("pools")
    assert "state.a_ptr" in emitted(made).source
    assert "state." not in emitted(made, scratch_bytes=0).source


def test_the_source_map_leads_from_text_to_lines() -> None:
    artifact = emitted(program("relu_twice"))
    lines = artifact.source.splitlines()
    for number, text in enumerate(lines, start=1):
        path = artifact.source_map.path_at(number)
        if "relu(" in text and ";" in text and "extern" not in text:
            assert path is not None
            assert str(path).startswith("body[")


HOSTILE = 'a*/b??/ "q" \\\nnext ??! \\'
"""Ends comments, is a trigraph for a backslash, quotes, continues lines."""


def test_strings_and_comments_stay_what_they_are() -> None:
    assert string(HOSTILE) == r'"a*/b?\?/ \"q\" \\\nnext ?\?! \\"'
    assert string("é\0?") == r'"\303\251\000?"'
    assert string("???") == r'"?\??"' or "??" not in string("???")
    for line in comment(HOSTILE + "\nx\rint y;\x0bint z;\u2028int w;"):
        assert line.startswith("//")
        assert "\\" not in line
        assert "??" not in line


def test_hostile_text_compiles_to_the_same_program() -> None:
    made = program("comments")
    body = (Comment(HOSTILE), Comment("*/ #error"), *made.body)
    name, constant = next(iter(made.constants.items()))
    hostile = constant.__class__(HOSTILE + "\u202e", constant.kind)
    made = made.replace(body=body, constants=FrozenMap({name: hostile}), in_spec=HOSTILE)
    check_syntax(emitted(made).source, "-trigraphs", "-Wall", "-Werror")


def test_no_name_is_a_macro() -> None:
    headers = "#include <wir/generated.h>\n#include <wir/control.h>\n"
    macros = set(re.findall(r"^#define (\w+)", preprocess(headers, "-dM"), re.MULTILINE))
    assert len(macros) > 500
    made = Program(buffers=FrozenMap(dict.fromkeys(macros, Layout(DType.FLOAT32, CPU, (), ()))))
    names = make_names(made)
    assert not macros & {names["buffer", name] for name in macros}


WORDS = (
    "class int wir std state call frame at run main inputs _x __y _Z x__y NULL co_await xor free"
)


def test_names_that_mean_something_to_cpp() -> None:
    buffers = {name: Layout.contiguous(DType.FLOAT32, (2,)) for name in WORDS.split()}
    lines = tuple(Allocate(name) for name in buffers)
    made = Program(
        body=(*lines,),
        buffers=FrozenMap(buffers),
        results=tuple(map(wir.lines.BufferValue, buffers)),
        stage=Stage.PLANNED,
    )
    check_syntax(emitted(made).source, "-Wall", "-Werror")


def test_a_number_beyond_64_bits_is_refused() -> None:
    text = """
wir 2
program @big inference planned

symbol s0 : int
symbol k0 : int
input s0

  k0 = compute s0 + 9223372036854775808
return k0
"""
    with pytest.raises(EmitError, match="64 bits"):
        wir.emit(wir.parse(text), "cpp")
