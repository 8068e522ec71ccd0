"""``wrapper-ir doctor``, where all is well and where things are really broken."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import wrapper_ir
from tests.pages import ROOT
from wrapper_ir.emitters import emitter_names

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SITE = Path(sysconfig.get_path("purelib"))

COMMAND = ("-c", "from wrapper_ir.cli import main; main(prog_name='wrapper-ir')", "doctor")

#: Emitters that cannot be relied on. ``wrong`` gives back what it was given.
BAD_EMITTERS = """
import os
from dataclasses import dataclass
from typing import ClassVar

from wrapper_ir.emitters import Emitter


@dataclass(frozen=True)
class Crashing(Emitter):
    name: ClassVar[str] = "crashing"

    def render(self, program, problems):
        os.abort()


@dataclass(frozen=True)
class Artifact:
    source: str = ""

    def load(self):
        return lambda x, w: (x, x[:, :2])

    load_boxed = load


@dataclass(frozen=True)
class Wrong(Emitter):
    name: ClassVar[str] = "wrong"

    def render(self, program, problems):
        return Artifact()
"""

POINTS = """
[wrapper_ir.emitters]
absent = no_such_module:Emitter
crashing = bad_emitters:Crashing
wrong = bad_emitters:Wrong
"""


def consult(
    *words: str, python: str | Path = sys.executable, path: Path = ROOT, **changes: str
) -> subprocess.CompletedProcess[str]:
    """Run the command in a process, with what comes first on its path."""
    return subprocess.run(
        [str(python), *COMMAND, *words],
        env={**os.environ, "PYTHONPATH": f"{path}{os.pathsep}{ROOT}", **changes},
        capture_output=True,
        text=True,
        check=False,
    )


def faults(report: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    found = [*report["facts"], *report["trials"], {"name": "cache", **report["cache"]}]
    return {each["name"]: each["fault"] for each in found if each["fault"]}


@pytest.fixture(scope="module")
def torchless(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment that has all that this one has, but for torch."""
    room = tmp_path_factory.mktemp("torchless")
    venv.create(room, with_pip=False)
    site = next(room.glob("lib/python*/site-packages"))
    for each in SITE.iterdir():
        is_ours = (
            each.name.startswith(("torch", "functorch", "wrapper_ir")) or each.suffix == ".pth"
        )
        if not is_ours:
            (site / each.name).symlink_to(each)
    return room / "bin" / "python"


def of_version(version: str, room: Path) -> Path:
    """Return a folder with our torch, as a release of another number."""
    import torch

    place = Path(torch.__file__).parent
    (room / "torch").mkdir()
    for each in place.iterdir():
        (room / "torch" / each.name).symlink_to(each)
    changed = room / "torch" / "version.py"
    text = changed.read_text(encoding="utf-8").replace(torch.__version__, version)
    changed.unlink()
    changed.write_text(text, encoding="utf-8")
    return room


@pytest.mark.slow
def test_all_is_well_here(tmp_path: Path) -> None:
    done = consult("--json")
    report = json.loads(done.stdout)
    assert (done.returncode, report["ok"], faults(report)) == (0, True, {}), done.stdout
    versions = {fact["name"]: fact["version"] for fact in report["facts"]}
    assert versions["wrapper_ir"] == wrapper_ir.__version__
    assert versions["Python"].startswith("3.")
    standings = {fact["name"]: fact["standing"] for fact in report["facts"]}
    assert standings["torch"] == "supported"
    assert report["cache"]["is_writable"]
    assert report["cache"]["free_bytes"] > 0
    assert [trial["name"] for trial in report["trials"]] == ["Inductor front end", *emitter_names()]
    assert all(trial["seconds"] > 0 for trial in report["trials"])


def test_without_torch(torchless: Path) -> None:
    done = consult(python=torchless)
    assert done.returncode == 1
    assert "torch: torch is not installed\n  hint: install torch 2.11 to " in done.stdout
    assert done.stdout.endswith("Nothing was run: that requires torch.\nSomething is wrong.\n")
    # A slow machine is told that the step goes on, and nothing else is said.
    assert [line for line in done.stderr.splitlines() if " … " not in line] == []
    assert not any(line.endswith("…") for line in done.stdout.splitlines())
    report = json.loads(consult("--json", python=torchless).stdout)
    assert (report["ok"], report["trials"]) == (False, [])
    assert {fact["name"] for fact in report["facts"]} >= {"Python", "compiler", "NVIDIA driver"}


def test_on_a_terminal(torchless: Path) -> None:
    ours, theirs = pty.openpty()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm-256color"}
    command = [torchless, *COMMAND]
    with subprocess.Popen(command, env=environment, stdout=theirs, stderr=theirs):
        os.close(theirs)
        shown = b"".join(_read(ours))
    os.close(ours)
    text = shown.decode()
    assert "running a small program" in text  # while it runs
    assert "\x1b[31mmissing" in text
    assert "Something is wrong." in text


def _read(terminal: int) -> Iterator[bytes]:
    """Yield what is written to a terminal, until its other side is closed."""
    with contextlib.suppress(OSError):  # how Linux says that it is
        while piece := os.read(terminal, 1 << 16):
            yield piece


@pytest.mark.slow
@pytest.mark.long
def test_bad_emitters_and_a_new_torch_leave_the_others_alone(tmp_path: Path) -> None:
    path = of_version("2.16.0", tmp_path)
    (path / "bad_emitters.py").write_text(BAD_EMITTERS, encoding="utf-8")
    about = path / "bad_emitters-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: bad-emitters\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(POINTS)
    done = consult("--json", path=path, WRAPPER_IR_TRY_TORCH="")
    report = json.loads(done.stdout)
    (torch,) = [fact for fact in report["facts"] if fact["name"] == "torch"]
    assert (torch["version"], torch["standing"]) == ("2.16.0", "untried")
    found = faults(report)
    assert list(found) == ["Inductor front end", "absent", "crashing", "wrong"], done.stdout
    assert found["Inductor front end"]["code"] == "WIR3002"
    assert "WRAPPER_IR_TRY_TORCH=1" in found["Inductor front end"]["hint"]
    assert found["absent"]["code"] == "WIR2005"
    assert "SIGABRT" in found["crashing"]["message"]
    assert "eager" in found["wrong"]["message"]
    assert done.returncode == 1


@pytest.mark.slow
def test_no_compiler_and_no_cache(tmp_path: Path) -> None:
    home = tmp_path / "somebody"
    home.mkdir()
    (home / "file").write_text("")
    broken = {"CXX": "no-such-compiler", "WRAPPER_IR_CACHE_DIR": str(home / "file")}
    done = consult(HOME=str(home), **broken)
    assert done.returncode == 1
    assert "compiler: WIR2102: no C++ compiler: 'no-such-compiler' is not on the path\n" in (
        done.stdout
    )
    assert "cache: WIR2105: the cache directory ~/file cannot be used" in done.stdout
    assert "python: WIR2105" in done.stdout
    assert "somebody" not in done.stdout
    # A slow machine is told that the step goes on, and nothing else is said.
    assert [line for line in done.stderr.splitlines() if " … " not in line] == []


def test_the_disk_is_asked_about_where_the_cache_is(tmp_path: Path) -> None:
    from wrapper_ir.cli.doctor import cache_facts

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WRAPPER_IR_CACHE_DIR", str(tmp_path / "cache"))
        patch.setenv("WRAPPER_IR_CACHE_MAX_BYTES", "1048576")
        found = cache_facts()
        assert found.max_bytes == 1 << 20
        assert 0 < found.free_bytes <= shutil.disk_usage(tmp_path).total
        assert found.is_writable
        patch.setenv("WRAPPER_IR_CACHE_MAX_BYTES", "much")
        refused = cache_facts()
        assert refused.fault is not None
        assert refused.fault.code == "WIR0003"
