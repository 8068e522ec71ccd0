"""Which torch is taken, which is refused, and which is tried when one asks for it.

Each is a process of its own, in which torch says that it is another release, or lacks a name.
"""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING

import pytest

from tests import warm
from tests.pages import ROOT
from tests.release import TORCH
from wrapper_ir.frontends import releases
from wrapper_ir.frontends.releases import Standing, standing

if TYPE_CHECKING:
    import subprocess

#: Captures and runs a model with a torch of another version, some of whose names are gone.
PROGRAM = """
import sys
import warnings
import torch
from wrapper_ir.frontends.releases import UntriedTorchWarning

warnings.simplefilter("default", UntriedTorchWarning)
version, *gone = sys.argv[1:]
torch.__version__ = version
for name in gone:
    module, _, name = name.rpartition(".")
    delattr(sys.modules[module], name)

import wrapper_ir as wir

model, x = torch.nn.Linear(4, 4), torch.randn(2, 4)
program = wir.capture(model, (x,))
assert torch.equal(wir.compile(program)(x)[0], model(x))
wir.capture(model, (x,))
print("captured")
"""


def capture_with(version: str, *gone: str, attempt: str = "") -> subprocess.CompletedProcess[str]:
    return warm.run(PROGRAM, version, *gone, ours=False, WRAPPER_IR_TRY_TORCH=attempt)


@pytest.mark.parametrize(
    ("version", "found"),
    [
        ("2.10.0", Standing.TOO_OLD),
        ("1.13.1+cu117", Standing.TOO_OLD),
        ("2.11.0", Standing.SUPPORTED),
        ("2.13.1+cu130", Standing.SUPPORTED),
        ("2.15.0", Standing.SUPPORTED),
        ("2.15.2.post1", Standing.SUPPORTED),
        ("2.16.0", Standing.UNTRIED),
        ("3.0.0", Standing.UNTRIED),
        ("2.15.0a0+gitabc", Standing.UNTRIED),
        ("2.15.0rc2", Standing.UNTRIED),
        ("2.16.0.dev20270101+cpu", Standing.UNTRIED),
        ("unknown", Standing.UNTRIED),
    ],
)
def test_what_is_known_of_a_version(version: str, found: Standing) -> None:
    assert standing(version) is found


def test_pip_is_told_the_same() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (torch,) = [each for each in project["dependencies"] if re.match(r"torch\b", each)]
    first, end = (".".join(map(str, release)) for release in releases.SUPPORTED)
    assert torch == f"torch>={first},<{end}"


def test_the_documents_say_the_same() -> None:
    for name in ("README.md", "docs/stability.md", "docs/torch-releases.md"):
        text = (ROOT / name).read_text(encoding="utf-8")
        assert f"torch {releases.in_words()}" in text, name


def test_the_newest_and_at_least_three_before_are_supported() -> None:
    (first, least), (end, most) = releases.SUPPORTED
    assert first == end
    assert most - least >= 4


def test_the_release_that_we_are_developed_with_is_supported() -> None:
    pinned = re.search(r"^torch==(.+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    assert pinned is not None
    assert standing(pinned[1]) is Standing.SUPPORTED


def test_an_old_release_is_refused_whatever_is_asked() -> None:
    for attempt in ("", "1"):
        done = capture_with("2.10.2", attempt=attempt)
        assert done.returncode == 1
        refusal = "WIR3002: the Inductor front end does not support torch 2.10.2: it is too"
        assert refusal in done.stderr
        assert f"hint: it supports torch {releases.in_words()}\n" in done.stderr
        assert releases.TRY not in done.stderr


@pytest.mark.parametrize("version", ["2.16.0", "2.16.0.dev20270101+cpu"])
def test_a_new_release_is_refused_with_the_way_to_try_it(version: str) -> None:
    for attempt in ("", "0"):
        done = capture_with(version, attempt=attempt)
        assert done.returncode == 1
        refusal = f"WIR3002: the Inductor front end does not support torch {version}: this"
        assert refusal in done.stderr
        assert "WRAPPER_IR_TRY_TORCH=1" in done.stderr
        assert f"the supported releases are {releases.in_words()}" in done.stderr


@pytest.mark.skipif(
    TORCH[1] + 1 < releases.SUPPORTED[1][1], reason="it lacks what a newer one is searched for"
)
def test_a_new_release_is_tried_with_one_warning() -> None:
    done = capture_with("2.16.0", attempt="1")
    assert done.stdout == "captured\n", done.stderr
    assert done.stderr.count("UntriedTorchWarning") == 1
    assert "torch 2.16.0 has not been tested" in done.stderr


def test_a_supported_release_gives_no_warning() -> None:
    done = capture_with("2.15.0", attempt="1")
    assert done.stdout == "captured\n", done.stderr
    assert "UntriedTorchWarning" not in done.stderr


@pytest.mark.parametrize(
    "gone",
    ["torch._inductor.select_algorithm.extern_kernels", "torch._dynamo.convert_frame.compile_lock"],
)
def test_a_name_that_is_gone_is_told_of(gone: str) -> None:
    """Whoever asks to try a release gets as far as the names are there."""
    module, _, name = gone.rpartition(".")
    done = capture_with("2.16.0", gone, attempt="1")
    assert done.returncode == 1
    assert f"cannot import name '{name}' from '{module}'" in done.stderr
    assert "WIR3002" in done.stderr
