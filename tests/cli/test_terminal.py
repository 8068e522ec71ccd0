"""What is shown where there is no terminal, and what starting costs."""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rich.table import Table

from wrapper_ir.cli import terminal

COLLECTIVES = Path(__file__).parents[1] / "programs" / "not_cpu" / "collectives.wir"


def test_tables_in_pipes_are_not_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    told = io.StringIO()
    monkeypatch.setattr(sys, "stdout", told)
    words = [f"inference: {name} of what was compiled" for name in ("output", "median", "spread")]
    table = Table(*words)
    table.add_row(*words)
    terminal.out().print(table)
    written = told.getvalue()
    assert all(written.count(each) == 2 for each in words)


def test_a_long_step_says_that_it_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    told = io.StringIO()
    monkeypatch.setattr(sys, "stderr", told)
    with terminal.bar("building it"):
        pass
    assert told.getvalue() == ""
    monkeypatch.setattr(terminal, "SILENCE", 0.01)
    with terminal.bar("building it"):
        while told.getvalue().count("building it …") < 2:
            time.sleep(0.01)


@pytest.mark.parametrize(
    "words",
    [
        "--help",
        "print small.wir",
        "emit small.wir",
        "emit small.wir --target cpp",
        "plan small.wir",
        "verify small.wir",
        "verify-ranks ranks.wir ranks.wir",
        "diff small.wir small.wir",
    ],
)
def test_what_needs_no_torch_imports_none(words: str, room: Path) -> None:
    """Emitting asks torch what an op returns, but products of matrices are known without."""
    shutil.copy(COLLECTIVES, room / "ranks.wir")
    program = (
        "import sys; from wrapper_ir.cli.app import main\n"
        "main(sys.argv[1:], standalone_mode=False)\n"
        "sys.exit('torch' in sys.modules)"
    )
    command = [sys.executable, "-c", program, *words.split()]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


_LIKE_A_COMMAND = """
import os
from wrapper_ir.cli.app import main
main(["emitters"], standalone_mode=False)
os.environ["CUDA_HOME"] = "/usr/local"
import torch.utils.cpp_extension
with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
    torch.ones(1).relu()
"""


def test_torch_says_nothing_amid_a_command_of_what_is_not_there() -> None:
    command = [sys.executable, "-c", _LIKE_A_COMMAND]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_help_and_our_emitters_are_light() -> None:
    program = (
        "import sys; import wrapper_ir.cli.app\n"
        "print('sympy' in sys.modules)\n"
        "from wrapper_ir.emitters import emitter_class\n"
        "for name in ('python', 'cpp', 'fx'): emitter_class(name)\n"
        "print('torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.stdout == "False\nFalse\n", done.stderr
