"""Exports that fail leave nothing; what is replaced is replaced whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

import wrapper_ir as wir
from tests.export.support import BROKEN, captured, plus_one, run
from wrapper_ir.aot.errors import ConstantValueError, ExportPathError
from wrapper_ir.toolchain.errors import CompileError

if TYPE_CHECKING:
    from pathlib import Path

TARGETS = ("m.pt2", "m.so")


@pytest.mark.parametrize("name", TARGETS)
def test_a_failed_export_leaves_nothing(tmp_path: Path, name: str) -> None:
    with pytest.raises(CompileError):
        wir.export(plus_one(BROKEN), tmp_path / name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", [*TARGETS, "folder"])
def test_a_failed_export_leaves_what_was_there(tmp_path: Path, name: str) -> None:
    target = wir.export(plus_one(), tmp_path / name)
    before = _bytes(target)
    program = captured()
    damaged = program.replace(data={**program.data, "constant_scale": torch.zeros(3)})
    with pytest.raises(ConstantValueError):
        wir.export(_without_a_value(damaged), target)
    assert _bytes(target) == before
    assert sorted(file.name for file in tmp_path.iterdir()) == [name]


def _without_a_value(program: wir.Program) -> wir.Program:
    name = next(iter(program.constants))
    return program.replace(data={n: v for n, v in program.data.items() if n != name})


def _bytes(path: Path) -> bytes:
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    return b"".join(file.read_bytes() for file in files if file.is_file())


def test_a_new_export_replaces_the_old_one(tmp_path: Path) -> None:
    wir.export(captured(), tmp_path / "m.so")
    wir.export(plus_one(), tmp_path / "m.so")
    assert run(tmp_path / "m.so", torch.zeros(4))[0].tolist() == [1.0] * 4
    wir.export(captured(), tmp_path / "f")
    wir.export(plus_one(), tmp_path / "f")
    assert not (tmp_path / "f" / "constants.s").exists()


def test_a_folder_with_other_things_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter1.tex").write_text("It was a dark and stormy night.")
    with pytest.raises(ExportPathError, match="would be lost"):
        wir.export(plus_one(), tmp_path / "thesis")
    assert (tmp_path / "thesis" / "chapter1.tex").exists()


@pytest.mark.parametrize("name", ["m.zip", "nowhere/m.so", "m.tar.gz"])
def test_paths_that_cannot_be_are_refused_at_once(tmp_path: Path, name: str) -> None:
    with pytest.raises(ExportPathError):
        wir.export(plus_one(BROKEN), tmp_path / name)


def test_a_directory_is_no_library(tmp_path: Path) -> None:
    (tmp_path / "m.so").mkdir()
    with pytest.raises(ExportPathError, match="directory"):
        wir.export(plus_one(), tmp_path / "m.so")


def test_only_programs_are_exported(tmp_path: Path) -> None:
    with pytest.raises(wir.NotAProgramError, match=r"wir\.export takes a Program.*type Linear"):
        wir.export(torch.nn.Linear(1, 1), tmp_path / "m.so")
