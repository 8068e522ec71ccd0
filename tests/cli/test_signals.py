"""What ends a command from outside: Ctrl-C, and a reader that has had enough."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Invoke

#: A model that presses Ctrl-C while it is made: no matter how fast the machine is.
INTERRUPTED = """
import os, signal


def make():
    os.kill(os.getpid(), signal.SIGINT)
    while True:
        pass
"""
MAIN = "from wrapper_ir.cli.app import main; main(prog_name='wrapper-ir')"


def test_an_interrupted_command_ends_quietly(room: Path) -> None:
    (room / "impatient.py").write_text(INTERRUPTED)
    command = [sys.executable, "-c", MAIN, "capture", "impatient.py:make"]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert (done.returncode, done.stdout) == (130, "")
    assert "Traceback" not in done.stderr
    assert "Aborted" not in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        "print small.wir",
        "print small.wir --color",
        "emit small.wir",
        "diff small.wir small.wir --json",
        "plan small.wir",
    ],
)
def test_a_reader_that_has_had_enough(words: str, room: Path) -> None:
    """As ``| head``, which may be gone before the first line: nothing is said, of no command."""
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-W", "ignore", "-c", MAIN, *words.split()]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert done.stderr == ""


def test_an_interrupt_inside_of_a_command(
    room: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    import wrapper_ir.text

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(wrapper_ir.text, "load", interrupted)
    result = invoke("print", "small.wir")
    assert (result.exit_code, result.output) == (130, "")
