"""The README's tour of the command line, typed in as it stands: it shows what really comes out."""

from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).parents[2] / "README.md"
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def steps() -> list[tuple[str, str]]:
    """Each command of the tour with the output shown for it."""
    text = "".join(BLOCK.findall(README.read_text(encoding="utf-8")))
    found = []
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, shown = part.partition("\n")
        found.append((command, shown))
    return found


@pytest.mark.slow
def test_the_tour_goes_as_shown(tmp_path: Path) -> None:
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    assert len(steps()) > 5
    for command, shown in steps():
        if command.startswith("cat "):
            (tmp_path / command.removeprefix("cat ")).write_text(shown, encoding="utf-8")
            continue
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        said = f"$ {command}\n{done.stdout}{done.stderr}"
        assert done.returncode == 0 or "verify -" in command, said
        assert doctest.OutputChecker().check_output(shown, done.stdout, FLAGS), said


def test_the_list_of_commands_is_complete() -> None:
    from wrapper_ir.cli.app import COMMANDS

    listed = re.findall(r"^\| `([a-z-]+)", README.read_text(encoding="utf-8"), re.MULTILINE)
    assert set(COMMANDS) <= set(listed)
