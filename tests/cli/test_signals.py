"""What ends a command from outside: Ctrl-C, and a reader that has had enough."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
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


#: What runs our command line where Ctrl-C means what it means at a terminal.
FROM_A_TERMINAL = f"import signal; signal.signal(signal.SIGINT, signal.default_int_handler); {MAIN}"

LOADING = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
import wrapper_ir as wir
wir.compile(wir.load("small.wir"), "cpp")
"""

#: A compiler that takes an hour for each file, and has a child that does the work.
SLOW = """\
#!/bin/sh
case " $* " in
*" -c "* | *" c++-header "*)
    sleep 3600 &
    echo $$ $! >> {pids}
    wait
    ;;
esac
exec g++ "$@"
"""


@pytest.mark.parametrize(
    ("words", "status"),
    [
        ([FROM_A_TERMINAL, "export", "small.wir", "-o", "small.pt2"], 130),
        ([FROM_A_TERMINAL, "run", "small.wir", "--random", "0"], 130),
        ([LOADING], -signal.SIGINT),
    ],
    ids=["export", "run", "load"],
)
def test_ctrl_c_ends_a_build_and_its_compilers(words: list[str], status: int, room: Path) -> None:
    slow, pids, cache = room / "slow++", room / "pids", room / "cache"
    slow.write_text(SLOW.format(pids=pids))
    slow.chmod(0o755)
    pids.touch()
    environment = {**os.environ, "WRAPPER_IR_CACHE_DIR": str(cache), "CXX": str(slow)}
    # A header of another cache would have this one wait for it.
    environment.pop("WRAPPER_IR_HEADER_DIR", None)
    before = {file.name for file in room.iterdir()}
    command = [sys.executable, "-W", "ignore", "-c", *words]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE) as process:
        while not pids.read_text() and process.poll() is None:
            time.sleep(0.05)
        assert process.poll() is None, "it ended before there was a compiler to stop"
        process.send_signal(signal.SIGINT)
        try:
            assert process.wait(timeout=60) == status
        finally:
            process.kill()
    assert [pid for pid in pids.read_text().split() if is_alive(int(pid))] == []
    assert {file.name for file in room.iterdir()} == before | {"cache"}
    assert list((cache / "tmp").glob("*")) == []
    assert list(cache.rglob("unfinished*")) == []


def test_a_command_that_ends_looks_for_no_garbage() -> None:
    """With torch that takes most of a second, which Ctrl-C would have to wait for."""
    frozen = "import atexit, gc; atexit.register(lambda: print(gc.get_freeze_count() > 1000))"
    done = subprocess.run(
        [sys.executable, "-c", f"{frozen}; {MAIN}", "--version"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.splitlines()[-1] == "True", done.stderr


def test_a_command_that_loaded_triton_ends_without_reports_of_leaks() -> None:
    pytest.importorskip("triton._C.libtriton")
    done = subprocess.run(
        [sys.executable, "-c", f"import triton._C.libtriton; {MAIN}", "--version"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def is_alive(process: int) -> bool:
    """Whether a process runs; one that has ended may wait for its parent to notice."""
    words = ["ps", "-o", "stat=", "-p", str(process)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return done.stdout.strip()[:1] not in ("", "Z")
