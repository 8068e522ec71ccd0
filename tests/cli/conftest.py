"""Programs, models and a way to call the command line."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Protocol

import pytest
from click.testing import CliRunner, Result

from tests.cli.samples import MODEL, PROGRAM
from wrapper_ir.cli import main

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Invoke(Protocol):
    def __call__(self, *words: str | Path, stdin: str | bytes | None = None) -> Result: ...


@pytest.fixture
def invoke(monkeypatch: pytest.MonkeyPatch) -> Invoke:
    # What a command says must not depend on how fast the machine is.
    monkeypatch.setattr("wrapper_ir.cli.terminal.SILENCE", 1e6)

    def call(*words: str | Path, stdin: str | bytes | None = None) -> Result:
        return CliRunner().invoke(main, [str(word) for word in words], input=stdin)

    return call


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory to be in, with a program and a model."""
    (tmp_path / "small.wir").write_text(PROGRAM, encoding="utf-8")
    (tmp_path / "net_model.py").write_text(MODEL, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    # A model's module is found in the current directory, and stays imported after a command.
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("net_model", "broken_model"):
        sys.modules.pop(name, None)
    yield tmp_path
    for name in ("net_model", "broken_model"):
        sys.modules.pop(name, None)
