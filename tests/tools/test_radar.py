"""The radar finds what was seeded, all of it, and nothing else."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.tools import small
from tools.radar import drift, gone
from tools.radar.cli import main

ROOT = Path(__file__).resolve().parents[2]


def _folders(tmp_path, new):
    ours = small.write(tmp_path / "ours", small.OURS) / "wrapper_ir"
    old = small.write(tmp_path / "old", small.TORCH)
    return old, small.write(tmp_path / "new", new), ours


def _unexplained(found, edits):
    """Return the findings that no edit explains, and the effects of edits that were not found."""
    wanted = [effect for edit in edits for effect in edit.found]
    extra = [f for f in found if not any(_is(f, effect) for effect in wanted)]
    return extra, [effect for effect in wanted if not any(_is(f, effect) for f in found)]


def _is(finding, effect):
    severity, kind, name, what = effect
    is_it = (finding.severity, finding.kind) == (severity, kind) and finding.name.endswith(name)
    return is_it and what in finding.what


@pytest.mark.parametrize("edit", small.EDITS, ids=lambda edit: edit.found[0][2])
def test_each_change_is_found(tmp_path, edit):
    found = drift(*_folders(tmp_path, small.edited((edit,))))

    assert _unexplained(found, [edit]) == ([], [])


@pytest.mark.parametrize("seed", range(20))
def test_of_many_changes_all_are_found_and_none_is_invented(tmp_path, seed):
    draw = random.Random(seed)
    edits = tuple(draw.sample(small.EDITS, draw.randrange(2, len(small.EDITS))))
    noise = tuple(draw.sample(small.UNRELATED, draw.randrange(len(small.UNRELATED))))

    found = drift(*_folders(tmp_path, small.edited((*noise, *edits))))

    assert _unexplained(found, edits) == ([], [])


def test_what_nothing_relies_on_is_not_reported(tmp_path):
    found = drift(*_folders(tmp_path, small.edited(small.UNRELATED)))

    assert found == []


def test_a_form_that_we_have_already_is_named(tmp_path):
    (edit,) = (e for e in small.EDITS if e.file.endswith("switch.py"))
    old, new, ours = _folders(tmp_path, small.edited((edit,)))
    (ours / "front/more.py").write_text("KNOWN = {'switch': 1}\n")

    (found,) = drift(old, new, ours)

    assert (found.what, found.ours) == ("is there", ("wrapper_ir/front/more.py:1",))


def test_a_class_known_by_its_name_may_move(tmp_path):
    moved = dict(small.TORCH)
    moved["torch/_inductor/lines.py"] = moved.pop("torch/_inductor/codegen/wrapper.py")
    moved["torch/_inductor/codegen/wrapper.py"] = (
        "from torch._inductor.lines import *\n"
        "from torch._inductor.lines import PythonWrapperCodegen\n"
    )
    found = drift(*_folders(tmp_path, moved))

    assert {(f.severity, f.kind) for f in found} <= {("new", "raw text")}


def test_symbols_and_names_of_libraries(tmp_path):
    old, new, ours = _folders(tmp_path, small.TORCH)
    (ours / "native/own.cpp").write_text('auto f = dlsym(0, "_ZN2at4cuda5Graph3endEv");\n')
    (ours / "fast.py").write_text("import torch\nend = torch._C._end_of_graph\n")
    text = 'const char* s = "\\0AOTInductorModelContainerRun\\0%s";\n'
    end = "namespace at::cuda { struct Graph { void end(%s); }; void Graph::end(%s) {} }\n"
    _library(old, "torch_cpu", text % "" + end % ("", ""))
    _library(new, "torch_cpu", text % "AOTInductorModelContainerNew\\0" + end % ("int", "int"))
    _library(old, "torch_python", 'const char* s = "\\0_end_of_graph\\0";\n')
    _library(new, "torch_python", 'const char* s = "\\0_end_of_graphs\\0";\n')

    found = drift(old, new, ours)

    assert {(f.severity, f.kind, f.name, f.what) for f in found} >= {
        ("breaks", "symbol", "_ZN2at4cuda5Graph3endEv", "is gone; perhaps _ZN2at4cuda5Graph3endEi"),
        ("breaks", "name", "torch._C._end_of_graph", "is gone"),
        ("new", "loader symbol", "AOTInductorModelContainerNew", "has no form yet"),
    }
    assert len(found) == 3


def _library(release, name, text):
    folder = release / "torch/lib"
    folder.mkdir(exist_ok=True)
    command = ["g++", "-x", "c++", "-shared", "-fPIC", "-o", folder / f"lib{name}.so", "-"]
    subprocess.run(command, input=text, text=True, check=True)


def test_another_build_lacks_nothing(tmp_path):
    old, new, ours = _folders(tmp_path, small.TORCH)
    (ours / "native/own.cpp").write_text('auto f = dlsym(0, "_Z3endv");\n')
    _library(old, "torch_cuda", "void end() {}\n")
    _library(new, "torch_cpu", "")

    assert drift(old, new, ours) == []


def test_gone_is_what_breaks(tmp_path):
    folders = _folders(tmp_path, small.edited(small.EDITS))

    assert {f.severity for f in gone(*folders)} == {"breaks"}


def test_the_command_reads_wheels_and_environments(tmp_path, capsys):
    old, new, ours = _folders(tmp_path, small.edited(small.EDITS[:1]))
    wheel = tmp_path / "torch-9.2.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as file:
        for path in sorted(p for p in new.rglob("*") if p.is_file()):
            file.write(path, path.relative_to(new).as_posix())
    environment = tmp_path / "venv/lib/python3.11/site-packages"
    environment.parent.mkdir(parents=True)
    environment.symlink_to(old)

    status = main([str(tmp_path / "venv"), str(wheel), "--ours", str(ours), "--json"])

    (found,) = json.loads(capsys.readouterr().out)
    assert (status, found["severity"]) == (1, "breaks")
    assert found["name"] == "torch._inductor.exc.InductorError"
    assert found["old"] == "torch/_inductor/exc.py:1"
    assert found["ours"] == ["wrapper_ir/front/compat.py:4"]


def test_the_command_says_that_nothing_differs(tmp_path, capsys):
    old, _, ours = _folders(tmp_path, {})

    assert main([str(old), str(old), "--ours", str(ours)]) == 0
    assert capsys.readouterr().out.count("nothing") == 3


def test_where_there_is_no_torch_the_status_is_2(tmp_path, capsys):
    old, _, ours = _folders(tmp_path, {})

    assert main([str(old), str(tmp_path / "none"), "--ours", str(ours)]) == 2
    assert "holds no torch" in capsys.readouterr().err


def test_it_is_a_script():
    command = [sys.executable, ROOT / "tools/drift.py", "--help"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout

    assert "OLD" in shown
