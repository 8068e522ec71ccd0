"""``make release``: what it refuses, and its checksums. The whole of it is run by hand."""

from __future__ import annotations

import argparse
import runpy
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from packaging.version import Version

import wrapper_ir
from tools.release import (
    address,
    arguments,
    objection,
    released,
    with_address,
    with_version,
    write_checksums,
)

ROOT = Path(__file__).parents[2]


def test_only_what_is_committed_and_tagged_alike_is_released() -> None:
    assert objection("", ["nightly"], "1.2.3") == ""
    assert objection("", ["v1.2.3"], "1.2.3") == ""
    assert "not committed" in objection(" M README.md", [], "1.2.3")
    assert "v1.3.0" in objection("", ["v1.3.0"], "1.2.3")


def test_the_version_is_that_of_the_tag_and_another_without_one(tmp_path: Path) -> None:
    assert released("1.2.3", ["nightly", "v1.2.3"], "1a2b3c4") == "1.2.3"
    for tags in ([], ["nightly"]):
        made = released("1.2.3", tags, "1a2b3c4")
        assert Version("1.2.2") < Version(made) < Version("1.2.3")
    module = (ROOT / "wrapper_ir/__init__.py").read_text()
    (tmp_path / "changed.py").write_text(with_version(module, wrapper_ir.__version__, made))
    assert runpy.run_path(str(tmp_path / "changed.py"))["__version__"] == made


def test_checksums_are_those_that_sha256sum_checks(tmp_path: Path) -> None:
    for name in ("a.whl", "b.tar.gz"):
        (tmp_path / name).write_text(name)
    sums = write_checksums(tmp_path)
    assert write_checksums(tmp_path) == sums
    check = ["sha256sum", "--check", "--quiet", sums.name]
    assert subprocess.run(check, cwd=tmp_path, check=False).returncode == 0
    (tmp_path / "a.whl").write_text("other")
    assert subprocess.run(check, cwd=tmp_path, check=False, capture_output=True).returncode == 1


def test_the_address_of_the_project_is_in_the_metadata_of_both_files(tmp_path: Path) -> None:
    project = tmp_path / "pyproject.toml"
    project.write_text(with_address((ROOT / "pyproject.toml").read_text(), "https://host.org/it"))
    for name in ("README.md", "LICENSE", "wrapper_ir/__init__.py", "tests/programs/aliases.wir"):
        (file := tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes((ROOT / name).read_bytes())
    command = [sys.executable, "-m", "hatchling", "build", "-d", "made"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    link = "Project-URL: Homepage, https://host.org/it"
    (sdist,) = tmp_path.glob("made/*.tar.gz")
    with tarfile.open(sdist) as packed:
        (name,) = (each for each in packed.getnames() if each.endswith("/PKG-INFO"))
        assert (info := packed.extractfile(name)) is not None
        assert link in info.read().decode().splitlines()
    (wheel,) = tmp_path.glob("made/*.whl")
    with zipfile.ZipFile(wheel) as parts:
        (name,) = (each for each in parts.namelist() if each.endswith("/METADATA"))
        assert link in parts.read(name).decode().splitlines()


def test_only_an_address_that_a_browser_opens_is_written() -> None:
    assert address("https://host.org/a/project/") == "https://host.org/a/project"
    for wrong in (
        "",
        "host.org/it",
        "ssh://host.org/it",
        "https:///it",
        'https://h/"]\nx',
        "http://h/ x",
    ):
        with pytest.raises(argparse.ArgumentTypeError):
            address(wrong)


def test_a_release_needs_no_address() -> None:
    assert arguments([]).home_url is None
    assert arguments(["--home-url", "https://host.org/it/"]).home_url == "https://host.org/it"
    with pytest.raises(SystemExit):
        arguments(["--home-url", ""])


def test_an_address_is_written_only_once() -> None:
    project = with_address((ROOT / "pyproject.toml").read_text(), "https://host.org/it")
    with pytest.raises(SystemExit, match=r"\[project.urls\]"):
        with_address(project, "https://host.org/other")
