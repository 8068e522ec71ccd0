"""The report on our models in other releases of torch."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import torch

import wrapper_ir as wir
from tools.captures import PAGE, report, save
from wrapper_ir.frontends.releases import SUPPORTED
from wrapper_ir.testing.corpus import corpus_program

if TYPE_CHECKING:
    import pytest


def test_each_release_is_compared_with_that_at_hand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    here = torch.__version__.partition("+")[0]
    for release, name in ((here, "relu_twice"), ("2.0.0", "relu_twice"), ("2.1.0", "residual")):
        Path(release).mkdir()
        corpus_program(name).save(f"{release}/net.wir")
    _, first, second = report(Path()).split("\n### ")
    assert first.startswith(f"From torch 2.0.0 to {here}\n\n**1 program: 1 the same**\n")
    assert second.startswith(
        f"From torch 2.1.0 to {here}\n\n**1 program: 1 changed, 0 the same**\n"
    )
    assert f"wrapper-ir explore 2.1.0/net.wir {here}/net.wir -o net.html" in second
    assert "\nStructures alone: 1 program: 1 changed, 0 the same.\n" in second


def test_the_page_has_a_report_on_each_release_that_is_supported() -> None:
    page = PAGE.read_text(encoding="utf-8")
    made = page.partition("<!-- made by tools/captures.py -->")[2].partition("<!-- end -->")[0]
    (_, first), (_, end) = SUPPORTED
    minors = [int(minor) for minor in re.findall(r"^### From torch 2\.(\d+)", made, re.MULTILINE)]
    assert minors == list(range(first, end - 1))
    assert made.count(f" to 2.{end - 1}.") == len(minors)


def test_programs_are_named_by_what_they_are_for(tmp_path: Path) -> None:
    made = corpus_program("relu_twice")
    forward = made.replace(role=wir.GraphRole.FORWARD)
    backward = made.replace(role=wir.GraphRole.BACKWARD)
    names = ["net", "net-forward", "net-backward-0", "net-backward-1"]
    assert save("net", [made, forward, backward, backward], tmp_path) == names
    assert wir.load(tmp_path / "net-forward.wir").role is wir.GraphRole.FORWARD
