"""An installed wheel, without the checkout: the command line, emitters, headers, corpus, types."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pages import ROOT

TRY = """
import json, sys, warnings
import torch
import wrapper_ir as wir
from wrapper_ir.testing.corpus import corpus_files, corpus_inputs, corpus_program

inputs = corpus_inputs("relu_twice")
expected = 2 * inputs[0].relu()
for target in ("python", "cpp", "fx"):
    result, = wir.compile(corpus_program("relu_twice"), target)(*inputs)
    assert torch.equal(result, expected), target
print(json.dumps({"file": wir.__file__, "programs": len(corpus_files())}))
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which the wheel was installed, and nothing else."""
    if importlib.util.find_spec("hatchling") is None:
        pytest.skip("what builds the wheel is not installed")
    room = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    run(*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", room, ROOT)
    (wheel,) = room.glob("*.whl")
    run(*pip, "install", "--no-deps", "--no-index", "--target", room / "site", wheel)
    return room / "site"


def run(*words: object, cwd: Path | None = None, path: Path | None = None) -> str:
    environment = dict(os.environ)
    if path is not None:
        environment["PYTHONPATH"] = str(path)
    done = subprocess.run(
        [*map(str, words)], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{words}\n{done.stdout}{done.stderr}"
    return done.stdout


def test_every_file_of_the_package_is_in_it(installed: Path) -> None:
    ours = [path for path in (ROOT / "wrapper_ir").rglob("*") if path.is_file()]
    names = [path.relative_to(ROOT) for path in ours if "__pycache__" not in path.parts]
    assert len(names) > 300
    missing = [name for name in names if not (installed / name).is_file()]
    assert missing == []
    programs = {path.name for path in (ROOT / "tests/programs").glob("*.wir")}
    assert {path.name for path in (installed / "wrapper_ir/testing/programs").glob("*.wir")} == (
        programs
    )


@pytest.mark.slow
def test_programs_run_in_every_emitter(installed: Path, tmp_path: Path) -> None:
    said = json.loads(run(sys.executable, "-c", TRY, cwd=tmp_path, path=installed))
    assert Path(said["file"]).parent == installed / "wrapper_ir"
    assert said["programs"] >= 60


def test_the_command_line(installed: Path, tmp_path: Path) -> None:
    command = (sys.executable, installed / "bin/wrapper-ir")
    text = run(*command, "corpus", "planned", cwd=tmp_path, path=installed)
    (tmp_path / "planned.wir").write_text(text)
    assert "ok" in run(*command, "verify", "planned.wir", cwd=tmp_path, path=installed)
    emitted = run(*command, "emit", "planned.wir", "--target", "cpp", cwd=tmp_path, path=installed)
    assert "wir::" in emitted
    about = json.loads(run(*command, "emitters", "--json", cwd=tmp_path, path=installed))
    assert {"cpp", "fx", "python"} <= {each["name"] for each in about}


def test_pytest_finds_the_fixtures(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("def test_it(wir_snapshot):\n    pass\n")
    command = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py")
    assert "1 passed" in run(*command, cwd=tmp_path, path=installed)
