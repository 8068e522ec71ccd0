"""The blocks of code in a page of documentation, and how each is tried.

A block says by its language, or by a remark right above it, what becomes of it:

- ``python``: all of a page are one script, which has to run;
- ``console``: commands behind ``$``, and what they write; ``...`` stands for anything;
- ``<!-- file: NAME -->``: a file that the commands of the page find, several times: its parts;
- ``<!-- printed -->``: what the page's script writes;
- ``<!-- run by PATH -->``: a test of its own runs it;
- ``<!-- not run: REASON -->``.
"""

from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")])

BLOCK = re.compile(
    r"^(?:<!-- (?P<note>(?:(?! -->).)*) -->\n)?```(?P<language>[^\n]*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@dataclass(frozen=True)
class Block:
    language: str
    text: str
    note: str

    @property
    def file(self) -> str:
        """The file that it is, or is a part of; empty if it is none."""
        return self.note.removeprefix("file: ") if self.note.startswith("file: ") else ""


def blocks(page: Path) -> list[Block]:
    found = BLOCK.finditer(page.read_text(encoding="utf-8"))
    return [Block(each["language"], each["text"], each["note"] or "") for each in found]


def script(page: Path) -> str:
    """The Python of a page."""
    return "\n".join(b.text for b in blocks(page) if b.language == "python" and not b.note)


def agrees(shown: str, found: str) -> bool:
    return doctest.OutputChecker().check_output(shown, found, FLAGS)


def steps(page: Path) -> Iterator[Block | tuple[str, str]]:
    """What there is to do for a page: files to write, and commands with what they show."""
    for block in blocks(page):
        if block.file:
            yield block
        elif block.language == "console" and not block.note:
            for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
                command, shown = _command(part)
                yield command, shown


def _command(part: str) -> tuple[str, str]:
    """A command, with the text that it is given behind ``<<'END'``, and what it shows."""
    lines = part.splitlines(keepends=True)
    end = lines.index("END\n") + 1 if "<<'END'" in lines[0] else 1
    return "".join(lines[:end]).rstrip("\n"), "".join(lines[end:])


def tour(page: Path, folder: Path, environment: Mapping[str, str] | None = None) -> None:
    """Do what a page says, in a folder, and compare what comes with what it shows.

    Commands that show their standard error, by ``2>&1``, may fail. Without an environment it is
    that of the tests.
    """
    environment = _ours(folder) if environment is None else environment
    written: set[str] = set()
    for step in steps(page):
        if isinstance(step, Block):
            with (folder / step.file).open("a", encoding="utf-8") as file:
                file.write(("\n" if step.file in written else "") + step.text)
            written.add(step.file)
            continue
        command, shown = step
        if command.startswith("cat ") and "<<" not in command:
            (folder / command.removeprefix("cat ")).write_text(shown, encoding="utf-8")
            continue
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        said = f"$ {command}\n{done.stdout}{done.stderr}"
        assert done.returncode == 0 or "2>&1" in command, said
        assert agrees(shown, done.stdout), said


def _ours(folder: Path) -> dict[str, str]:
    """An environment in which commands find this checkout, and install below a folder."""
    installed = folder / "installed"
    site = sysconfig.get_path("purelib", vars={"base": str(installed)})
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "CI": "",  # as at home, where tests leave texts for a review
        "PYTHONPATH": f"{folder}:{site}:{os.environ.get('PYTHONPATH', ROOT)}",
        **_installing(installed),
    }
    for variable in [each for each in environment if each.startswith("PYTEST_")]:
        del environment[variable]  # those of the run that we are in ourselves
    return environment


def _installing(folder: Path) -> dict[str, str]:
    """An environment in which ``pip install`` changes only a folder, and fetches nothing."""
    return {
        "PIP_PREFIX": str(folder),
        "PIP_NO_INDEX": "1",
        "PIP_NO_DEPS": "1",
        "PIP_NO_BUILD_ISOLATION": "0",  # which is how pip spells that there is none
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }
