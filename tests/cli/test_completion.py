"""What a shell is told when the user presses the key that completes words."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import BashComplete

from wrapper_ir.cli import main
from wrapper_ir.cli.app import COMMANDS


def proposed(words: str, word: str = "") -> list[str]:
    complete = BashComplete(main, {}, "wrapper-ir", "_WRAPPER_IR_COMPLETE")
    return [item.value for item in complete.get_completions(words.split(), word)]


@pytest.mark.parametrize(
    ("words", "word", "found"),
    [
        ("", "pl", ["plan", "plan-csv"]),
        ("emit small.wir --target", "py", ["python"]),
        ("diff a b --target", "i", ["ir"]),
        ("diff a b --format", "j", ["json"]),
        ("bisect small.wir -a", "c", ["cpp"]),
        ("run small.wir --debug", "ch", ["check", "check_nan"]),
        ("plan small.wir --strategy", "p", ["pool"]),
        ("capture m.py:make --isa", "x86-64-v3", ["x86-64-v3"]),
        ("emit small.wir --target python -O", "ch", ["checks="]),
        ("emit small.wir --target nothing -O", "", []),
        ("corpus", "while_n", ["while_number"]),
        ("cache", "t", ["trim"]),
        ("emit small.wir", "--cons", ["--constants"]),
    ],
)
def test_words(words: str, word: str, found: list[str], room: Path) -> None:
    offered = proposed(words, word)
    if word == "ch" and words.endswith("-O"):
        offered = sorted({each.partition("=")[0] + "=" for each in offered})
    assert offered == found


@pytest.mark.parametrize("words", ["print", "verify a.wir", "capture", "run a.wir --inputs"])
def test_the_shell_completes_files(words: str) -> None:
    complete = BashComplete(main, {}, "wrapper-ir", "_WRAPPER_IR_COMPLETE")
    (item,) = complete.get_completions(words.split(), "sm")
    assert (item.type, item.value) == ("file", "sm")


def test_all_commands() -> None:
    assert proposed("") == list(COMMANDS)


def test_bash_completes_with_clicks_script(room: Path) -> None:
    """The real shell, the real script, the installed command."""
    bash, command = shutil.which("bash"), Path(sys.executable).with_name("wrapper-ir")
    if bash is None or not command.exists():
        pytest.skip("needs bash and the installed command")
    lines = (
        "compopt() { :; }",  # only there while a key is handled
        'eval "$(_WRAPPER_IR_COMPLETE=bash_source wrapper-ir)"',
        "COMP_WORDS=(wrapper-ir veri); COMP_CWORD=1",
        "_wrapper_ir_completion wrapper-ir",
        'echo "${COMPREPLY[*]}"',
    )
    environment = {**os.environ, "PATH": f"{command.parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        [bash, "-c", "\n".join(lines)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "verify verify-ranks\n", done.stderr


def test_nothing_heavy_is_imported(room: Path) -> None:
    code = """
import sys
from click.shell_completion import BashComplete
from wrapper_ir.cli import main
complete = BashComplete(main, {}, "wrapper-ir", "X")
for words in (["print"], ["emit", "x", "--target"], ["run", "x", "--debug"], ["corpus"]):
    assert complete.get_completions(words, ""), words
assert "torch" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
