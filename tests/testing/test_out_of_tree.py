"""``examples/snapshots``: a project of somebody else's with every kind of snapshot."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests import warm

if TYPE_CHECKING:
    import subprocess

EXAMPLES = Path(__file__).parents[2] / "examples"

#: What an installed package has beside its code.
INSTALLED = {
    "METADATA": "Metadata-Version: 2.1\nName: device-opencl\nVersion: 0.1.0\n",
    "entry_points.txt": "[wrapper_ir.devices]\nopencl = device_opencl:OPENCL\n",
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the device's package is installed, as far as pure programs need it."""
    site = tmp_path_factory.mktemp("site")
    (site / "device_opencl").symlink_to(EXAMPLES / "device_opencl" / "device_opencl")
    for name, text in INSTALLED.items():
        file = site / "device_opencl-0.1.0.dist-info" / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    return site


class Project:
    """A copy of the project, and a terminal of 120 x 40."""

    def __init__(self, folder: Path, site: Path) -> None:
        self.folder = shutil.copytree(EXAMPLES / "snapshots", folder / "snapshots")
        (self.folder / "pytest.ini").write_text(f"[pytest]\npythonpath = {site}\n")

    def change(self, before: str, after: str) -> None:
        compiler = self.folder / "fused.py"
        text = compiler.read_text()
        assert text.count(before) == 1
        compiler.write_text(text.replace(before, after))

    def run(self, *args: str) -> subprocess.CompletedProcess[str]:
        return warm.run(
            *(warm.PYTEST, "-p", "no:cacheprovider", *args),
            cwd=self.folder,
            PYTEST_ADDOPTS="",
            CI="",
            BUILD_NUMBER="",
            COLUMNS="120",
            LINES="40",
        )


@pytest.fixture
def project(tmp_path: Path, site: Path) -> Project:
    return Project(tmp_path, site)


@pytest.mark.parametrize("cores", [1, 64])
def test_its_snapshots_are_right_on_every_machine(project: Project, cores: int) -> None:
    project.change("os.cpu_count() or 1", str(cores))
    done = project.run("-q")
    assert done.returncode == 0, done.stdout


LONG = pytest.mark.long
RELU = ('"v > 0 ? v : 0"', '"fmax(v, 0.0f)"')
SIZE = ("SIZE = 4096", "SIZE = 8192")


@pytest.mark.parametrize(
    ("test", "change", "shown"),
    [
        ("test_files[negate-relu]", RELU, "+ v = fmax(v, 0.0f);"),
        pytest.param("test_inline", RELU, "+ v = fmax(v, 0.0f);", marks=LONG),
        pytest.param("test_structure[opencl]", SIZE, "size[0] 4096 -> 8192", marks=LONG),
        ("test_an_emitter_out_of_tree", SIZE, "+ buf0 = empty('float32', (8192,), (1,))"),
        pytest.param("test_a_device_out_of_tree", RELU, "+ v = fmax(v, 0.0f);", marks=LONG),
    ],
)
def test_a_failure_fits_a_screen_and_one_command_mends_it(
    project: Project, test: str, change: tuple[str, str], shown: str
) -> None:
    project.change(*change)
    done = project.run(f"test_fused.py::{test}")
    lines = done.stdout.splitlines()
    assert done.returncode == 1
    assert any(line.strip() == shown for line in lines), done.stdout
    assert len(lines) < 40, done.stdout  # the prompt is the last
    assert max(map(len, lines)) <= 120
    (accept,) = (line for line in lines if line.startswith("accept it:  "))
    program, *words = shlex.split(accept.removeprefix("accept it:  "))
    assert program == "pytest"
    assert project.run(*words).returncode == 0
    assert project.run(f"test_fused.py::{test}").returncode == 0


def test_what_one_change_did_to_programs_is_one_decision_in_any_language(project: Project) -> None:
    project.change(*RELU)
    assert "6 snapshots wait for a decision" in project.run().stdout
    assert project.run("-k", "structure").returncode == 0
    review = "from wrapper_ir.cli import main; main()"
    listed = warm.run(review, "review", "--list", cwd=project.folder)
    assert "5 snapshots changed in the same way" in listed.stdout
    done = warm.run(review, "review", "--accept", cwd=project.folder)
    assert (done.returncode, done.stdout) == (0, "6 accepted\n"), done.stderr
    assert project.run().returncode == 0
