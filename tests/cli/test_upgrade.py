"""``wrapper-ir upgrade``: old files in the new form, remarks and all."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import wrapper_ir as wir
from wrapper_ir.lines import SCHEMA_VERSION

if TYPE_CHECKING:
    from tests.cli.conftest import Invoke

OLD = (Path(__file__).parents[1] / "text/versions/version_1.wir").read_text(encoding="utf-8")


def test_old_files_are_rewritten_in_place(room: Path, invoke: Invoke) -> None:
    old, new = room / "old.wir", room / "small.wir"
    old.write_text(OLD)
    before = new.read_text()
    checked = invoke("upgrade", "--check", old, new)
    assert (checked.exit_code, checked.stdout) == (1, f"{old}\n")
    assert old.read_text() == OLD
    done = invoke("upgrade", old, new)
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", f"upgraded {old}\n")
    assert new.read_text() == before
    assert old.read_text().splitlines()[0] == OLD.splitlines()[0]  # a remark
    assert f"\nwir {SCHEMA_VERSION}\n" in old.read_text()
    assert wir.load(old) == wir.parse(OLD)
    assert invoke("upgrade", "--check", old, new).exit_code == 0


def test_a_stream(room: Path, invoke: Invoke) -> None:
    done = invoke("upgrade", "-", stdin=OLD)
    assert done.exit_code == 0
    assert wir.parse(done.stdout) == wir.parse(OLD)
    assert invoke("upgrade", "-", stdin=done.stdout).stdout == done.stdout


def test_nothing_is_written_when_a_file_is_no_program(room: Path, invoke: Invoke) -> None:
    (room / "old.wir").write_text(OLD)
    (room / "torn.wir").write_text(OLD[:200])
    assert invoke("upgrade", "old.wir", "torn.wir").exit_code == 2
    assert (room / "old.wir").read_text() == OLD
