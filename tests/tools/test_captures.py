"""The report on our models in other releases of torch."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from tools.captures import PAGE, report
from wrapper_ir.testing.corpus import corpus_program

if TYPE_CHECKING:
    import pytest


def test_each_release_is_compared_with_that_at_hand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
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


def test_the_page_has_a_report() -> None:
    page = PAGE.read_text(encoding="utf-8")
    made = page.partition("<!-- made by tools/captures.py -->")[2].partition("<!-- end -->")[0]
    assert made.count("\n### From torch 2.") >= 2
