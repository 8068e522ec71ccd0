"""What a shell is told when the user presses the key that completes words."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.shell_completion import BashComplete

from wrapper_ir.cli import main
from wrapper_ir.cli.app import COMMANDS
from wrapper_ir.cli.completion import SHELLS

if TYPE_CHECKING:
    from tests.cli.conftest import Invoke


def proposed(words: str, word: str = "") -> list[str]:
    complete = BashComplete(main, {}, "wrapper-ir", "_WRAPPER_IR_COMPLETE")
    return [item.value for item in complete.get_completions(words.split(), word)]


@pytest.mark.parametrize(
    ("words", "word", "found"),
    [
        ("", "pl", ["plan", "plan-csv"]),
        ("print", "", ["more/", "small.wir"]),
        ("print", "sm", ["small.wir"]),
        ("print", "more/", ["more/deep.wir"]),
        ("print", "none/", []),
        ("verify small.wir", "s", ["small.wir"]),
        ("capture", "ne", ["net_model.py"]),
        ("emit small.wir --target", "py", ["python"]),
        ("diff a b --target", "i", ["ir"]),
        ("diff a b --format", "h", ["html"]),
        ("bisect small.wir -a", "c", ["cpp"]),
        ("run small.wir --debug", "ch", ["check", "check_nan"]),
        ("plan small.wir --strategy", "p", ["pool"]),
        ("capture m.py:make --isa", "x86-64-v3", ["x86-64-v3"]),
        ("emit small.wir --target python -O", "ch", ["checks="]),
        ("emit small.wir --target nothing -O", "", []),
        ("run small.wir --inputs", "x", ["x.pt"]),
        ("corpus", "while_n", ["while_number"]),
        ("cache", "t", ["trim"]),
        ("emit small.wir", "--cons", ["--constants"]),
    ],
)
def test_words(words: str, word: str, found: list[str], room: Path) -> None:
    (room / "more").mkdir()
    (room / "more" / "deep.wir").touch()
    (room / ".hidden.wir").touch()
    (room / "x.pt").touch()
    offered = proposed(words, word)
    if word == "ch" and words.endswith("-O"):
        offered = sorted({each.partition("=")[0] + "=" for each in offered})
    assert offered == found


def test_all_commands() -> None:
    assert proposed("") == list(COMMANDS)


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_is_written_where_the_shell_looks(
    shell: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, invoke: Invoke
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SHELL", f"/usr/bin/{shell}")
    shown = invoke("--show-completion")
    done = invoke("--install-completion")
    assert (shown.exit_code, done.exit_code) == (0, 0), done.output
    path, *remarks = done.stdout.splitlines()
    assert remarks
    assert tmp_path in Path(path).parents
    assert Path(path).read_text() == shown.stdout
    assert f"{shell}_complete" in shown.stdout
    assert invoke("--show-completion", shell).stdout == shown.stdout


def test_bash_completes_with_the_script(room: Path, invoke: Invoke) -> None:
    """The real shell, the real script, the installed command."""
    bash, command = shutil.which("bash"), Path(sys.executable).with_name("wrapper-ir")
    if bash is None or not command.exists():
        pytest.skip("needs bash and the installed command")
    (room / "script").write_text(invoke("--show-completion", "bash").stdout)
    lines = (
        "compopt() { :; }",  # only there while a key is handled
        "source ./script",
        "COMP_WORDS=(wrapper-ir print sma); COMP_CWORD=2",
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
    assert done.stdout == "small.wir\n", done.stderr


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
