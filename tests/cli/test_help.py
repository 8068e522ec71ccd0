"""What help says is there, is complete, and costs no import of torch."""

from __future__ import annotations

import itertools
import re
import shlex
import subprocess
import sys
from typing import TYPE_CHECKING

import click
import pytest

import wrapper_ir
from wrapper_ir.cli import main
from wrapper_ir.cli.app import COMMANDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cli.conftest import Invoke


def commands(
    command: click.Command = main, words: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield words, command
    if isinstance(command, click.Group):
        with click.Context(command) as ctx:
            for name in command.list_commands(ctx):
                inner = command.get_command(ctx, name)
                assert inner is not None
                yield from commands(inner, (*words, name))


ALL = dict(commands())


@pytest.mark.parametrize("words", ALL, ids=" ".join)
def test_help_of_every_command_says_what_it_does_and_shows_examples(
    words: tuple[str, ...], invoke: Invoke
) -> None:
    result = invoke(*words, "--help")
    assert result.exit_code == 0
    assert "Examples:\n    wrapper-ir" in result.stdout or "Examples:\n  " in result.stdout
    assert ALL[words].help
    assert all(parameter.help for parameter in options(ALL[words]))


def options(command: click.Command) -> list[click.Option]:
    return [parameter for parameter in command.params if isinstance(parameter, click.Option)]


@pytest.mark.parametrize("words", ALL, ids=" ".join)
def test_examples_use_commands_and_options_that_exist(words: tuple[str, ...]) -> None:
    used = [words for line in examples(ALL[words]) for words in calls(line)]
    assert used
    for call in used:
        named = tuple(call[:2]) if tuple(call[:2]) in ALL else tuple(call[:1])
        known = {flag for option in options(ALL[named]) for flag in option.opts}
        assert {word for word in call if word.startswith("-") and word != "-"} <= known


def examples(command: click.Command) -> list[str]:
    block = (command.epilog or "").partition("Examples:\n")[2].partition("\n\n")[0]
    return [line.partition(" #")[0] for line in block.splitlines()]


def calls(line: str) -> Iterator[list[str]]:
    """Yield the words behind each ``wrapper-ir`` of a line of shell."""
    for is_end, words in itertools.groupby(shlex.split(line), lambda word: word in ("|", "&&")):
        found = list(words)
        if not is_end and "wrapper-ir" in found:
            yield found[found.index("wrapper-ir") + 1 :]


def test_the_list_of_commands_is_complete(invoke: Invoke) -> None:
    listed = invoke("--help").stdout
    for name in COMMANDS:
        assert re.search(rf"^  {name} ", listed, re.MULTILINE)


def test_the_list_of_commands_fits_a_screen(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = invoke("--help").stdout.splitlines()
    assert len(lines) <= 40
    assert [line for line in lines[1:] if len(line) > 80 or line.endswith("...")] == []


def test_version(invoke: Invoke) -> None:
    assert invoke("--version").stdout == f"wrapper-ir, version {wrapper_ir.__version__}\n"


@pytest.mark.parametrize("words", [["--help"], ["emit", "--help"], ["plan", "-h"]], ids=" ".join)
def test_help_imports_nothing_heavy(words: list[str]) -> None:
    code = f"""
import sys
from wrapper_ir.cli import main
try:
    main({words!r})
except SystemExit as end:
    assert not end.code
heavy = {{"torch", "sympy", "rich", "numpy"}} & set(sys.modules)
assert not heavy, heavy
"""
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_verifying_needs_no_torch(room: object) -> None:
    code = """
import sys
from wrapper_ir.cli import main
try:
    main(["verify", "small.wir"])
except SystemExit as end:
    assert not end.code
assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
