"""Pending snapshots: left by failing tests, accepted or rejected, one by one or at once."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests import warm
from tests.testing.samples import TEXT
from wrapper_ir.cli import main
from wrapper_ir.testing.pending import PendingError, accept, pending_in

TEST = f'''
import pytest
import wrapper_ir as wir

TEXT = """{TEXT}"""

def make(size):
    calls = "\\n".join(["  call @k(%x, out %a)"] * size)
    text = TEXT.replace("{{size}}", str(size)).replace("{{op}}", "OP").replace("{{calls}}", calls)
    return wir.parse(text)

@pytest.mark.parametrize("size", range(1, COUNT))
def test_files(wir_snapshot, size):
    assert make(size) == wir_snapshot

def test_inline(wir_inline):
    wir_inline(make(3), target="python")
'''


def run(folder: Path, *args: str, **changes: str) -> subprocess.CompletedProcess[str]:
    environment = {"PYTEST_ADDOPTS": "", "COLUMNS": "120", "CI": "", "BUILD_NUMBER": "", **changes}
    return warm.run(warm.PYTEST, "-q", "-p", "no:cacheprovider", *args, cwd=folder, **environment)


def write(folder: Path, op: str, count: int = 4) -> None:
    """Write the test, or only another op into it."""
    test = folder / "test_it.py"
    if test.exists():
        text = test.read_text()
        test.write_text(text.replace('"relu"', f'"{op}"').replace('"tanh"', f'"{op}"'))
    else:
        test.write_text(TEST.replace("OP", op).replace("COUNT", str(count)))


def review(*args: str) -> Result:
    return CliRunner().invoke(main, ["review", *args])


def left(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.rglob("*") if p.suffix in (".wir-new", ".wir-inline"))


ROOT = Path(__file__).parents[2]

NEW = [f"test_files[{size}].wir.wir-new" for size in (1, 2, 3)]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder where four snapshots changed, and no test has run since."""
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    write(tmp_path, "relu")
    done = run(tmp_path, "--snapshot-update")
    assert done.returncode == 0, done.stdout
    write(tmp_path, "tanh")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_failing_tests_leave_what_a_review_decides_on(folder: Path) -> None:
    done = run(folder)
    assert "4 snapshots wait for a decision:  wrapper-ir review\n" in done.stdout
    assert "unused" not in done.stdout
    assert left(folder) == [*NEW, "test_it.py.wir-inline"]
    listed = review("--list")
    assert listed.exit_code == 1
    assert "3 snapshots changed in the same way:\n  __snapshots__/test_it/test_files[1].wir\n" in (
        listed.output
    )
    assert listed.output.endswith("4 left\n")
    assert review().output == listed.output  # without a terminal
    groups = json.loads(review("--json").output)
    assert [len(group["changes"]) for group in groups] == [3, 1]
    assert any("tanh" in row for row in groups[0]["changes"][0]["difference"])
    accepted = review("--accept")
    assert (accepted.exit_code, accepted.output) == (0, "4 accepted\n")
    assert left(folder) == []
    again = run(folder)
    assert again.returncode == 0, again.stdout
    assert review().output == "no snapshot waits for a decision\n"


def test_some_are_accepted_and_others_rejected(folder: Path) -> None:
    run(folder)
    file = "__snapshots__/test_it/test_files[1].wir"
    before = {path: path.read_text() for path in folder.rglob("*.wir")}
    assert review(file, "--accept").output == "1 accepted\n"
    assert review("__snapshots__", "--reject").output == "2 rejected\n"
    assert left(folder) == ["test_it.py.wir-inline"]
    changed = {path for path in before if path.read_text() != before[path]}
    assert changed == {folder / file}
    source = (folder / "test_it.py").read_text()
    assert review("test_it.py", "--reject").exit_code == 0
    assert (folder / "test_it.py").read_text() == source
    assert left(folder) == []
    assert review("nowhere.wir").exit_code == 2


def test_what_is_right_again_or_accepted_waits_no_more(folder: Path) -> None:
    run(folder)
    write(folder, "relu")
    assert run(folder).returncode == 0
    assert left(folder) == []
    write(folder, "tanh")
    run(folder, "-n2")
    assert left(folder) == [*NEW, "test_it.py.wir-inline"]
    assert run(folder, "-k", "test_inline or 1", "--snapshot-update").returncode == 0
    assert left(folder) == NEW[1:]


@pytest.mark.parametrize(
    ("options", "changes", "leaves"),
    [
        ((), {"CI": "true"}, False),
        ((), {"BUILD_NUMBER": "3"}, False),
        (("--wir-pending=no",), {}, False),
        (("--wir-pending=yes",), {"CI": "true"}, True),
    ],
)
def test_none_are_left_where_nobody_reviews(
    folder: Path, options: tuple[str, ...], changes: dict[str, str], leaves: bool
) -> None:
    done = run(folder, *options, **changes)
    assert done.returncode == 1
    assert bool(left(folder)) == leaves
    assert ("wrapper-ir review" in done.stdout) == leaves


def test_a_file_that_cannot_be_written_is_no_other_failure(folder: Path) -> None:
    """As root may write anywhere, something else stands where the pending file would."""
    for name in NEW:
        (folder / "__snapshots__" / "test_it" / name).mkdir()
    (folder / "test_it.py.wir-inline").write_text("somebody else's")
    done = run(folder)
    assert "snapshot differs: " in done.stdout
    assert "wrapper-ir review" not in done.stdout
    assert "Error" not in done.stdout


def test_calls_of_a_file_are_decided_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    tests = "".join(f"def test_{name}(wir_inline):\n    wir_inline(make(1))\n" for name in "abc")
    head = TEST.partition("@pytest")[0].replace("OP", "relu")
    (tmp_path / "test_it.py").write_text(head + tests)
    run(tmp_path)
    run(tmp_path, "-k", "test_b")  # the others stay
    first, second, third = pending_in([tmp_path])
    assert [each.before for each in (first, second, third)] == [None] * 3
    accept([first])
    assert len(pending_in([tmp_path])) == 2  # which have moved down
    passed = [run(tmp_path, "-k", name, "--wir-pending=no").returncode for name in ("a", "b")]
    assert passed == [0, 1]
    assert review("--accept").output == "2 accepted\n"
    assert run(tmp_path).returncode == 0
    assert left(tmp_path) == []


def test_a_test_that_changed_is_left_alone(folder: Path) -> None:
    run(folder)
    test = folder / "test_it.py"
    changed = "# a line more\n" + test.read_text()
    test.write_text(changed)
    done = review("test_it.py", "--accept")
    assert done.exit_code == 2
    assert "WIR5002" in done.output
    assert "hint: run the test again" in done.output
    assert test.read_text() == changed
    assert left(folder) == [*NEW, "test_it.py.wir-inline"]


@pytest.mark.parametrize("text", ["", "{}", '{"calls": [{}]}', '{"calls": 3}', "[]"])
def test_what_is_no_pending_file_is_said(tmp_path: Path, text: str) -> None:
    (tmp_path / "test_it.py.wir-inline").write_text(text)
    with pytest.raises(PendingError, match="not what a test leaves"):
        pending_in([tmp_path])
    (tmp_path / "test_it.py.wir-inline").unlink()
    (tmp_path / "a.wir.wir-new").write_bytes(b"\xff")
    with pytest.raises(PendingError, match="UTF-8"):
        pending_in([tmp_path])


def test_only_pending_files_are_touched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.new").write_text("mine")
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / "a.wir.wir-new").write_text("theirs")
    (tmp_path / "a.wir").mkdir()
    (tmp_path / "a.wir.wir-new").write_text("x")
    done = review("--accept")
    assert done.exit_code == 2
    assert "WIR5003" in done.output
    assert "no regular file" in done.output
    (tmp_path / "a.wir").rmdir()
    assert review("--accept").output == "1 accepted\n"
    names = sorted(os.path.relpath(p, tmp_path) for p in tmp_path.rglob("*") if p.is_file())
    assert names == [".venv/a.wir.wir-new", "a.wir", "notes.new"]


def test_a_text_that_nobody_has_seen_is_not_accepted(tmp_path: Path) -> None:
    (tmp_path / "a.wir").write_text("old")
    new = tmp_path / "a.wir.wir-new"
    new.write_text("shown")
    shown = pending_in([tmp_path])
    new.write_text("left since")
    with pytest.raises(PendingError, match="another text since"):
        accept(shown)
    assert (tmp_path / "a.wir").read_text() == "old"
    assert new.exists()


# At a terminal.

_START = """
import fcntl, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
from wrapper_ir.cli import main
main(prog_name="wrapper-ir")
"""


def at_a_terminal(folder: Path, keys: str) -> tuple[str, int]:
    """Review on a terminal, typing a key each time that one is asked for."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", _START, "review"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,  # so that Ctrl-C is its own
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm", "COLUMNS": "120"},
    )
    os.close(theirs)
    shown, typed = b"", 0
    while True:
        ready, _, _ = select.select([ours], [], [], 60)
        assert ready, shown.decode()
        try:
            shown += (part := os.read(ours, 65536))
        except OSError:  # on Linux, the end of a terminal that nobody has open
            break
        if not part:
            break
        while typed < min(len(keys), shown.count(b"quit ? ")):
            os.write(ours, keys[typed].encode())
            typed += 1
    os.close(ours)
    return re.sub(r"\x1b\[[\d;]*m|\r", "", shown.decode()), process.wait()


@pytest.mark.long  # half a minute; three changes of one cause are reviewed below
def test_fifty_changes_of_one_cause_are_reviewed_with_a_few_keys(folder: Path) -> None:
    (folder / "test_it.py").unlink()
    write(folder, "relu", count=51)
    assert run(folder, "--snapshot-update", "-n2").returncode == 0
    write(folder, "tanh")
    assert "51 snapshots wait" in run(folder, "-n2").stdout
    shown, status = at_a_terminal(folder, keys := "naa")
    assert status == 0, shown
    assert len(keys) < 10
    assert "[1/2] 50 snapshots changed in the same way\n" in shown
    assert "\n  and 47 more\n" in shown
    assert shown.endswith("51 accepted\n")
    again = run(folder, "-n2")
    assert again.returncode == 0, again.stdout


def test_a_group_is_decided_one_by_one_or_not_at_all(folder: Path) -> None:
    run(folder, "-k", "test_files")
    shown, status = at_a_terminal(folder, "\x03")
    assert status == 130, shown
    assert left(folder) == NEW
    for key in "sq":
        shown, status = at_a_terminal(folder, key)
        assert (status, "3 left" in shown) == (1, True)
    shown, status = at_a_terminal(folder, "lxears")
    assert status == 1
    assert "[1/1] 3 snapshots changed in the same way\n" in shown
    assert "[4/4] 1 snapshot changed\n" in shown
    assert shown.endswith("1 accepted, 1 rejected, 1 left\n")
    assert left(folder) == NEW[2:]
