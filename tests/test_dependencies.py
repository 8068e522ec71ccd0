"""What the package asks for is enough: its work, in a process that finds nothing else installed."""

from __future__ import annotations

import importlib.metadata
import json
import re
import subprocess
import sys
import tomllib
from typing import TYPE_CHECKING

import pytest
from packaging.requirements import Requirement

from tests.pages import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

#: What is installed for others is not found; a program is made, stored, read, run and exported.
WORK = """
import json, sys, sysconfig

SITE = sysconfig.get_path("purelib")
OTHERS = {*json.loads(sys.argv[1])}

class WithoutOthers:
    def __init__(self, finder):
        self.finder = finder

    def __getattr__(self, name):
        return getattr(self.finder, name)

    def find_spec(self, name, path=None, target=None):
        if name in OTHERS:  # setuptools brings some of its own, in a folder below
            path = [each for each in sys.path if each != SITE]
        return self.finder.find_spec(name, path, target)

sys.meta_path[:] = map(WithoutOthers, sys.meta_path)

import torch
import wrapper_ir as wir

x = torch.ones(2, 8)
model = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.Tanh()).eval()
wir.capture(model, (x,)).save("model.wir")
program = wir.load("model.wir")
wir.export(program, "model.pt2")
loaded = wir.load_package("model.pt2")
for results in (wir.compile(program)(x), wir.interpret(program, x), [loaded(x)]):
    torch.testing.assert_close(results[0], model(x))
"""


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def asked_for(needs: Iterable[str], found: set[str]) -> set[str]:
    """The distributions that an empty environment gets for what is needed, without extras."""
    for need in map(Requirement, needs):
        name = normal(need.name)
        if name in found or (need.marker and not need.marker.evaluate({"extra": ""})):
            continue
        try:
            further = importlib.metadata.requires(name) or ()
        except importlib.metadata.PackageNotFoundError:
            continue
        found.add(name)
        asked_for(further, found)
    return found


@pytest.mark.slow
def test_what_the_package_asks_for_is_enough(tmp_path: Path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = asked_for(project["dependencies"], {normal(project["name"])})
    assert {"torch", "sympy"} <= wanted
    others = [
        module
        for module, homes in importlib.metadata.packages_distributions().items()
        if not {normal(home) for home in homes} & wanted
    ]
    assert {"pytest", "hypothesis", "transformers"} <= {*others}
    command = [sys.executable, "-W", "ignore", "-c", WORK, json.dumps(others)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
