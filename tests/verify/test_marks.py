"""Marks of kept storage: a verdict is carried over to them only where a whole walk would agree."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import pytest

import wrapper_ir as wir
from tests.planning.test_kept import NAMES, SCRATCH
from wrapper_ir.lines import Program, Stage
from wrapper_ir.lines.traits import allocates
from wrapper_ir.verify import diagnose, verify, verify_marks
from wrapper_ir.verify.verifier import Verdict, check_program

ROOT = Path(__file__).parents[1] / "programs"
FILES = [path for path in sorted(ROOT.rglob("*.wir")) if "alloc" in path.read_text()]


def planned(path: Path) -> Program:
    found = wir.parse(path.read_text())
    return found if found.stage is Stage.PLANNED else wir.plan_memory(found)


def marked(source: Program, name: str) -> Program:
    lines = (
        dataclasses.replace(line, kept=True) if allocates(line) and line.out == name else line
        for line in source.body
    )
    return source.replace(body=tuple(lines))


def is_refused(program: Program) -> bool:
    try:
        verify(program)
    except wir.VerificationError:
        return True
    return False


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_each_mark_is_judged_as_the_whole_program_would_be(path: Path) -> None:
    source = verify(planned(path))
    names = [line.out for line in source.body if allocates(line) and not line.kept]
    for name in names[:12]:
        changed = marked(source, name)
        verify_marks(source, changed)
        assert is_refused(changed) == bool(diagnose(changed)), name


def test_a_mark_on_storage_that_is_reused_and_returned_is_refused_for_the_allocation() -> None:
    text = SCRATCH.replace("  free %c\n", "").replace("return %r", "return %r, %c")
    source = verify(wir.parse(text))
    for name in NAMES:
        changed = marked(source, name)
        verify_marks(source, changed)
        assert is_refused(changed) == (name in {"b", "seen", "handed", "r"}), name


def test_other_changes_are_verified_in_full() -> None:
    source = verify(planned(FILES[0]))
    broken = source.replace(body=source.body[:-1], results=())
    verify_marks(source, broken)
    assert is_refused(broken) == bool(diagnose(broken))
    unknown = planned(FILES[0]).replace()
    verify_marks(unknown, unknown.replace())
    assert not is_refused(unknown)


def test_emitting_a_verified_program_walks_it_no_second_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = sys.modules["wrapper_ir.verify"]
    check, walked = check_program, []

    def counted(program: Program) -> Verdict:
        walked.append(program)
        return check(program)

    monkeypatch.setattr(module, "check_program", counted)
    source = wir.parse(SCRATCH)
    wir.emit(source, "python", scratch_bytes=1000)
    assert len(walked) == 1  # with its marks
    source = verify(source.replace())
    prepared = wir.prepare(source, "python", scratch_bytes=1000)
    assert prepared is not source
    verify(prepared)
    assert len(walked) == 2  # without them
