"""What the project shows to those who come: files of a public forge, and how to cite it."""

from __future__ import annotations

import re
import tomllib
from typing import Any

import yaml

import wrapper_ir
from tests.pages import ROOT
from wrapper_ir.frontends.releases import SUPPORTED, Standing, standing

FORGE = ROOT / ".github"
WORKFLOWS = sorted(FORGE.glob("workflows/*.yml"))


def read(path: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((FORGE / path).read_text(encoding="utf-8"))
    return found


def test_workflows_run_targets_that_there_are() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z][a-z-]*):", makefile, re.MULTILINE))
    for file in WORKFLOWS:
        called = re.findall(r"run: make ([a-z-]+)", file.read_text(encoding="utf-8"))
        assert called, file
        assert set(called) <= targets, file


def test_the_matrix_holds_every_torch_that_is_supported_but_the_one_of_all_tests() -> None:
    releases = read("workflows/test.yml")["jobs"]["torch"]["strategy"]["matrix"]["torch"]
    assert {standing(release) for release in releases} == {Standing.SUPPORTED}
    pinned = re.search(r"^torch==(.+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    assert pinned is not None
    minors = {int(release.split(".")[1]) for release in (*releases, pinned[1])}
    (_, first), (_, end) = SUPPORTED
    assert minors == set(range(first, end))


def test_every_python_that_the_project_names_is_tried() -> None:
    pythons = read("workflows/test.yml")["jobs"]["test"]["strategy"]["matrix"]["python"]
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    named = set(re.findall(r"Python :: (3\.\d+)", project))
    assert named <= set(pythons)
    release = (FORGE / "workflows/release.yml").read_text(encoding="utf-8")
    (tried,) = re.findall('PYTHONS="(.*)"', release)
    assert {f"python{each}" for each in named} <= {*tried.split()}


def test_reports_of_faults_bring_the_doctors() -> None:
    (field,) = (f for f in read("ISSUE_TEMPLATE/fault.yml")["body"] if f.get("id") == "doctor")
    assert "wrapper-ir doctor" in field["attributes"]["label"]
    assert field["validations"] == {"required": True}


def test_the_extra_for_tests_brings_what_snapshots_need_and_nothing_more() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    names = [re.split(r"\W", each)[0] for each in project["optional-dependencies"]["testing"]]
    assert names == ["pytest", "syrupy"]


def test_the_citation_is_of_this_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == wrapper_ir.__version__


def test_each_area_of_the_code_is_one_of_which_owners_are_asked() -> None:
    lines = (FORGE / "CODEOWNERS").read_text(encoding="utf-8").splitlines()
    patterns = [line.split()[0] for line in lines if line and not line.startswith("#")]
    assert all((ROOT / pattern.strip("/")).exists() for pattern in patterns if pattern != "*")
    packages = {file.parent.name for file in ROOT.glob("wrapper_ir/*/__init__.py")}
    assert {f"/wrapper_ir/{name}/" for name in packages} <= set(patterns)
