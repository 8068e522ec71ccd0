"""``wrapper-ir export``, and ``emit --target cpp``."""

from __future__ import annotations

import ctypes
import json
import zipfile
from typing import TYPE_CHECKING

import pytest

from wrapper_ir.debug_printer import NoCallMatchesWarning

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Invoke


def test_a_package_is_built(invoke: Invoke, room: Path) -> None:
    words = ("export", "small.wir", "-o", "m.pt2", "--metadata", "author=Ada", "-j", "2")
    result = invoke(*words)
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    assert result.stdout == ""
    with zipfile.ZipFile(room / "m.pt2") as archive:
        name = "package/data/aotinductor/model/model.wrapper_metadata.json"
        assert json.loads(archive.read(name))["author"] == "Ada"


def test_a_package_is_inspected(invoke: Invoke, room: Path) -> None:
    assert invoke("export", "small.wir", "-o", "m.pt2").exit_code == 0
    shown = invoke("inspect", "m.pt2", "--verify")
    assert shown.exit_code == 0, shown.output
    for words in (
        "made by    wrapper_ir",
        "needs      PyTorch",
        "input      ",
        "every part is intact",
    ):
        assert words in shown.stdout
    (about,) = json.loads(invoke("inspect", "m.pt2", "--json").stdout)["models"]["model"]
    content = bytearray((room / "m.pt2").read_bytes())
    content[content.index(b"\x7fELF") + 200] ^= 1
    (room / "m.pt2").write_bytes(content)
    damaged = invoke("inspect", "m.pt2", "--verify")
    assert damaged.exit_code == 1
    assert f"{about['library']} is not as it was written" in damaged.stdout
    assert invoke("inspect", "m.pt2").exit_code == 0
    refused = invoke("inspect", "small.wir")
    assert refused.exit_code == 2
    assert "it is not a .pt2 package" in refused.stderr


def test_several_programs_make_one_package(invoke: Invoke, room: Path) -> None:
    (room / "other.wir").write_bytes((room / "small.wir").read_bytes())
    made = invoke("export", "small.wir", "two=other.wir", "two=small.wir", "-o", "m.pt2")
    assert made.exit_code == 0, made.output
    models = json.loads(invoke("inspect", "m.pt2", "--json").stdout)["models"]
    assert {name: len(variants) for name, variants in models.items()} == {"small": 1, "two": 2}
    assert invoke("export", "one=small.wir", "-o", "one.pt2").exit_code == 0
    assert "one\n" in invoke("inspect", "one.pt2").stdout
    assert invoke("export", "small.wir", "other.wir", "-o", "m.so").exit_code == 2


def test_a_library_and_its_debug_information(invoke: Invoke, room: Path) -> None:
    result = invoke("export", "small.wir", "-o", "m.so", "--isa", "x86-64-v2", "--debug-info")
    assert result.exit_code == 0, result.output
    assert (room / "m.so").is_file()
    assert (room / "m.so.debug").is_file()


def test_a_library_with_probes(invoke: Invoke, room: Path) -> None:
    words = ("--debug", "names", "--debug-filter", "nothing*")
    with pytest.warns(NoCallMatchesWarning, match=r"kernels='nothing\*'"):
        result = invoke("export", "small.wir", "-o", "m.so", *words)
    assert result.exit_code == 0, result.output
    ctypes.CDLL(str(room / "m.so")).WrapperIRSetProbes(b"off", None)  # it says that there are none
    result = invoke("export", "small.wir", "-o", "m.so", "--debug", "compare")
    assert result.exit_code != 0
    assert "a probe of level 'compare'" in result.stderr


def test_the_text_in_cpp(invoke: Invoke, room: Path) -> None:
    result = invoke("emit", "small.wir", "--target", "cpp")
    assert result.exit_code == 0, result.output
    assert "wir_program_info" in result.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("-o", "m.zip"), "WIR2274"),
        (("-o", "nowhere/m.so"), "WIR2274"),
        (("-o", "m.so", "--isa", "x86-64-v9"), "x86-64-v3"),
        (("-o", "m.so", "--gpu-arch", "90"), "such as 'sm_90'"),
        (("-o", "m.so", "-O", "speed=9"), "WIR0002"),
        (("-o", "m.so", "--debug", "loud"), "'names', 'check'"),
        (("-o", "m.pt2", "--metadata", "author"), "author"),
        (("-o", "m.pt2", "--metadata", "AOTI_DEVICE_KEY=cuda"), "AOTI_"),
    ],
)
def test_mistakes_are_told_before_anything_is_read(
    invoke: Invoke, room: Path, words: tuple[str, ...], said: str
) -> None:
    result = invoke("export", "no such file.wir", *words)
    assert result.exit_code == 2
    assert said in result.stderr
    assert "no such file" not in result.stderr


def test_constants_without_values_are_missed(invoke: Invoke, room: Path) -> None:
    (room / "c.wir").write_text(
        'wir 2\nprogram @p inference planned\n\nconstant %w : f32[2] @cpu = parameter "w"\n\n'
        "return %w\n"
    )
    result = invoke("export", "c.wir", "-o", "m.so")
    assert result.exit_code == 2
    assert "c.safetensors" in result.stderr
    assert not (room / "m.so").exists()


def test_a_folder_of_source_is_checked_and_kept_from_harm(invoke: Invoke, room: Path) -> None:
    words = ("export", "small.wir", "-o", "model/", "--target", "python")
    assert invoke(*words).exit_code == 0
    fine = invoke("check", "model/")
    assert (fine.exit_code, fine.stdout) == (0, "model/ still matches its program\n")
    assert invoke(*words, "-O", "origins=true").exit_code == 0  # it was not edited
    wrapper = room / "model" / "wrapper.py"
    wrapper.write_text(wrapper.read_text().replace("return (", "return 2 * (", 1))
    edited = invoke("check", "model")
    assert edited.exit_code == 1
    assert "  + return 2 * (" in edited.stdout
    (edit,) = json.loads(invoke("check", "model", "--json").stdout)
    assert edit["file"] == "wrapper.py"
    assert edit["line"] == wrapper.read_text()[: wrapper.read_text().index("2 * (")].count("\n") + 1
    refused = invoke(*words)
    assert refused.exit_code == 2
    assert "'wrapper.py' in it was edited, which would be lost" in refused.stderr
    assert invoke("export", "model/program.wir", "-o", "model", "--force").exit_code == 2  # read
    assert invoke(*words, "--force").exit_code == 0
    assert invoke("check", "model").exit_code == 0
    (room / "other").mkdir()
    (room / "other" / "thesis.tex").write_text("It was a dark and stormy night.")
    assert invoke("export", "small.wir", "-o", "other", "--force").exit_code == 2
    none = invoke("check", "other")
    assert none.exit_code == 2
    assert "WIR2279" in none.stderr


def test_several_programs_make_one_folder(invoke: Invoke, room: Path) -> None:
    (room / "other.wir").write_bytes((room / "small.wir").read_bytes())
    made = invoke("export", "small.wir", "two=other.wir", "-o", "model/", "--target", "python")
    assert made.exit_code == 0, made.output
    assert {each.name for each in (room / "model").iterdir() if each.is_dir()} == {"small", "two"}
    assert invoke("check", "model").exit_code == 0
    refused = invoke("export", "small.wir", "-o", "n/", "--target", "python", "--isa", "x86-64-v3")
    assert "has no option 'isa'" in refused.stderr
    refused = invoke("export", "small.wir", "-o", "n.so", "--target", "python")
    assert "for a package or library" in refused.stderr
