"""One cache, several processes; work in the background."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests import warm
from wrapper_ir.errors import OptionValueError
from wrapper_ir.toolchain.processes import Running, StoppedError, in_background

CHILD = """
import sys, torch
from tests.toolchain.conftest import scale
from wrapper_ir.toolchain.kernels import build_kernels
factors = ("2.0f", "3.0f", "4.0f")
functions = build_kernels([scale("k" + f[0], f) for f in factors])
x, out = torch.ones(4), torch.empty(4)
for function in functions:
    function(x, out, 4)
    print(out[0].item())
"""
RESULT = "2.0\n3.0\n4.0\n"


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WRAPPER_IR_CACHE_DIR", str(tmp_path / "shared-cache"))
    return tmp_path / "shared-cache"


def start() -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", CHILD],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )


def finish(process: subprocess.Popen[str]) -> None:
    out, err = process.communicate()
    assert process.returncode == 0, err
    assert out == RESULT


def another() -> None:
    done = warm.run(CHILD, cwd=Path(__file__).parents[2])
    assert done.returncode == 0, done.stderr
    assert done.stdout == RESULT


def test_two_processes_build_once_and_a_third_starts_no_compiler(
    directory: Path, counting_compiler: Path
) -> None:
    racing = [start(), start()]
    for process in racing:
        finish(process)
    calls = counting_compiler.read_text()
    assert calls.count(" -c ") == 1
    assert calls.count("-shared") == 2  # the library, and an empty one that passes for PyTorch's
    another()
    assert counting_compiler.read_text() == calls
    assert len(list(directory.glob("objects/*/*.so"))) == 1


def test_damaged_entries_are_built_again(directory: Path, counting_compiler: Path) -> None:
    another()
    for times, kind in ((2, "so"), (3, "json")):
        for file in directory.glob(f"objects/*/*.{kind}"):
            content = file.read_bytes()
            file.write_bytes(content[: len(content) // 2] + b"\0" * (len(content) // 2))
        another()
        assert counting_compiler.read_text().count(" -c ") == times


def test_a_command_is_done_when_it_ends_whatever_it_leaves_behind() -> None:
    code, said = Running().run(["sh", "-c", "sleep 60 & echo $!; exit 3"])
    Path(f"/proc/{int(said)}/exe").readlink()  # an error if it has ended
    os.kill(int(said), signal.SIGKILL)
    assert code == 3


@pytest.mark.parametrize(
    "error", [StoppedError(), OptionValueError(option="a", value=1, expected="b")]
)
def test_what_goes_wrong_in_the_background_is_not_shown(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[object] = []
    monkeypatch.setattr(threading, "excepthook", shown.append)
    threads: queue.SimpleQueue[threading.Thread] = queue.SimpleQueue()

    def work() -> None:
        threads.put(threading.current_thread())
        raise error

    in_background("test", work)
    thread = threads.get(timeout=60)
    thread.join()
    assert thread.name == "wrapper_ir test"
    assert not shown
