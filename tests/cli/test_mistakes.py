"""What a user does wrong: a message, the right exit code, nothing on stdout and no traceback."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests import warm
from tests.cli.samples import FAULTY, MISSPELT

if TYPE_CHECKING:
    from tests.cli.conftest import Invoke

#: Words of the command line -> exit code and what the message says.
MISTAKES: dict[str, tuple[int, tuple[str, ...]]] = {
    "": (2, ("Usage:",)),
    "emitt small.wir": (2, ("No such command 'emitt'", "id you mean 'emit'?")),
    "print": (2, ("Missing argument 'FILE.wir'",)),
    "print --colour small.wir": (2, ("No such option", "--colour")),
    "print missing.wir": (2, ("WIR0230", "cannot read 'missing.wir': No such file")),
    "print .": (2, ("WIR0230", "directory")),
    "print misspelt.wir": (2, ("misspelt.wir:18:8", "alocate", "did you mean 'allocate'?", "^")),
    "plan misspelt.wir": (2, ("misspelt.wir:18:8",)),
    "plan small.wir --strategy rouse": (2, ("WIR0002", "'rouse'", "did you mean 'reuse'?")),
    "plan small.wir --arena keep": (2, ("WIR0003", "'keep'", "'call', 'kept'")),
    "plan small.wir --arena kept --strategy none": (2, ("'none': there are no arenas to keep",)),
    "plan faulty.wir": (1, ("WIR1030", "^ error:")),
    "emit faulty.wir": (1, ("WIR1030", "^ error:")),
    "emit small.wir --target pyton": (
        2,
        ("'pyton'", "did you mean 'python'?", "installed emitters"),
    ),
    "emit small.wir -O chekcs=always": (2, ("WIR0002", "did you mean 'checks'?")),
    "emit small.wir -O checks=sometimes": (2, ("WIR0003", "'sometimes'", "first_call")),
    "emit small.wir -O origins=maybe": (2, ("WIR0003", "'maybe'", "true or false")),
    "emit small.wir -O scratch_bytes=1.5": (2, ("WIR0003", "'1.5'", "a whole number")),
    "emit small.wir --target fx -O arena=kept": (2, ("WIR0002", "no option 'arena'")),
    "emit small.wir -O =always": (2, ("WIR4007", "'=always'")),
    "emit small.wir -o nowhere/w.py": (2, ("WIR4006", "cannot write 'nowhere/w.py'")),
    "emit small.wir --constants beside": (2, ("--constants beside needs files",)),
    "emit small.wir --constants embedded": (2, ("'embedded' is not one of 'none', 'beside'",)),
    "run small.wir": (2, ("--inputs PATH or --random SEED",)),
    "run small.wir --random 1 --inputs x.pt": (2, ("--inputs PATH or --random SEED",)),
    "run small.wir --random 1 -O arena=keep": (2, ("WIR0003", "'call', 'kept'")),
    "run small.wir --random one": (2, ("'one' is not a valid integer",)),
    "run small.wir --inputs missing.pt": (2, ("WIR4006", "missing.pt", "No such file")),
    "run small.wir --inputs missing.safetensors": (2, ("WIR4006", "missing.safetensors")),
    "run small.wir --inputs small.wir": (2, ("WIR4006", "neither a .safetensors file nor a .pt")),
    "capture net_model": (2, ("WIR4001", "package.module:attribute")),
    "capture no_such_module:make": (2, ("WIR4002", "No module named 'no_such_module'")),
    "capture missing.py:make": (2, ("WIR4006", "missing.py")),
    "capture broken_model:make": (2, ("WIR4002", "SyntaxError")),
    "capture net_model:mak": (2, ("WIR4003", "did you mean 'make'?")),
    "capture net_model:net": (2, ("WIR4004", "without its arguments")),
    "capture net_model:make_nothing": (2, ("WIR4004", "type int")),
    "capture net_model:make_bare": (2, ("WIR4004", "(x,)")),
    "capture net_model:make_too_much": (2, ("WIR4004", "a tuple of 5")),
    "capture net_model:make --args net_model:nothing": (2, ("WIR4003",)),
    "capture net_model:fail": (2, ("WIR4005", "RuntimeError: no weather today")),
    "capture net_model:make -O origins=true": (2, ("-O needs --emit",)),
    "capture net_model:make --emit w.py --target pyton": (2, ("did you mean 'python'?",)),
    "cache trim --max-bytes lots": (2, ("'lots' is not a number of bytes",)),
    "cache clean": (2, ("No such command 'clean'", "id you mean 'clear'?")),
    "upgrade small.wir misspelt.wir": (2, ("misspelt.wir:18:8",)),
    "upgrade missing.wir": (2, ("WIR4006", "missing.wir")),
    "corpus whle": (2, ("no program 'whle'", "did you mean 'while'?")),
    "run small.wir --random 1 -o -": (2, ("results go to a file",)),
    "export small.wir -o -": (2, ("not to standard output",)),
    "bisect small.wir --random 1 -o -": (2, ("a reproducer is a folder",)),
    "bisect - --other - --random 1": (2, ("holds one program, not two",)),
    "diff - -": (2, ("holds one program, not two",)),
}


@pytest.mark.parametrize("words", MISTAKES)
def test_mistake(words: str, room: Path, invoke: Invoke) -> None:
    (room / "faulty.wir").write_text(FAULTY)
    (room / "misspelt.wir").write_text(MISSPELT)
    (room / "broken_model.py").write_text("def make(:\n")
    code, messages = MISTAKES[words]
    before = sorted(room.iterdir())
    result = invoke(*words.split())
    assert result.exit_code == code, result.output
    for message in messages:
        assert message in result.stderr
    assert "Traceback" not in result.output
    assert result.stdout == ""
    assert [path for path in sorted(room.iterdir()) if path.name != "__pycache__"] == before


def test_a_model_that_does_not_fit_its_arguments(room: Path) -> None:
    # In a process of its own: torch writes a traceback to its log, which must not be shown either.
    words = ["capture", "net_model:make_misfit", "-o", "m.wir"]
    code = f"from wrapper_ir.cli import main; main({words})"
    done = warm.run(code)
    assert done.returncode == 2
    assert "must have same reduction dim, but got [4, 9] X [8, 16]" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (room / "m.wir").exists()


@pytest.mark.parametrize("words", [("--traceback", "print"), ("print", "--traceback")])
def test_traceback_on_request_wherever_it_is_said(
    words: tuple[str, ...], room: Path, invoke: Invoke
) -> None:
    result = invoke(*words, "missing.wir")
    assert result.exit_code == 2
    assert "Traceback (most recent call last)" in result.stderr
    assert "cannot read 'missing.wir'" in result.stderr


def test_a_fault_of_ours_is_called_one(
    room: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    import wrapper_ir.text

    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("oh")

    monkeypatch.setattr(wrapper_ir.text, "load", broken)
    result = invoke("print", "small.wir")
    assert result.exit_code == 3
    assert "internal error: ZeroDivisionError: oh" in result.stderr
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    ("redirection", "command", "said"),
    [
        ("> /dev/full", "emitters", "No space left on device"),
        ("<&-", "print -", "cannot read standard input: it is closed"),
    ],
)
def test_streams_that_cannot_be_used_are_not_our_fault(
    redirection: str, command: str, said: str
) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    code = "from wrapper_ir.cli.app import main; main(prog_name='wrapper-ir')"
    words = ["/bin/sh", "-c", f'exec "$0" -c "{code}" {command} {redirection}', sys.executable]
    done = subprocess.run(
        words,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, said in done.stderr) == (2, True), done.stderr
