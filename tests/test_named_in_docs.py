"""Pages name files, modules, codes and targets that exist."""

from __future__ import annotations

import importlib
import re
from functools import cache
from pathlib import Path

import pytest

import wrapper_ir
from tests.pages import PAGES, ROOT, steps
from wrapper_ir.lines import PartialLineVisitor

#: Pages that add something of their own, and what.
ADDED = {"add-a-line.md": {"visit_zero"}, "fuzzing.md": {"show.py"}}

SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
PATH = re.compile(r"\b(?:wrapper_ir|tests|tools|docs|benchmarks|examples)/[\w./-]*\w(?![\w*{<])")
SOURCE = re.compile(r"[\w-]+\.(?:py|cpp|h|toml|txt)")
DOTTED = re.compile(r"(?<![\w/.])(?:wir|wrapper_ir)(?:\.[A-Za-z_]\w*)+")
METHOD = re.compile(r"\bvisit_\w+")
CODE = re.compile(r"\bWIR\d{4}\b|\bWRAPPER_IR_[A-Z_]+[A-Z]\b")
TARGET = re.compile(r"`make ([a-z-]+)")


@cache
def texts() -> dict[str, str]:
    """The sources of the project by path; what is made, such as caches, is no part of it."""
    folders = ("wrapper_ir", "tests", "tools", "benchmarks", "examples")
    files = [file for folder in folders for file in (ROOT / folder).rglob("*.*")]
    endings = {".py", ".cpp", ".h", ".toml", ".txt", ".wir", ".md"}
    return {
        file.relative_to(ROOT).as_posix(): file.read_text(encoding="utf-8", errors="replace")
        for file in files
        if file.suffix in endings and "__pycache__" not in file.parts
    }


@cache
def words() -> frozenset[str]:
    """The identifiers, codes and quoted names in the package."""
    ours = "\n".join(text for name, text in texts().items() if name.startswith("wrapper_ir/"))
    quoted = re.findall(r"[\"']((?:wrapper_ir\.)\w+)[\"'(]", ours)
    numbered = {f"WIR{number}" for number in re.findall(r"\b\d{4}\b", ours)}
    return frozenset({*re.findall(r"\w+", ours), *quoted, *numbered})


def spans(page: Path) -> list[str]:
    return SPAN.findall(page.read_text(encoding="utf-8"))


def exists(name: str) -> bool:
    """Tell whether a dotted name is a module, or an attribute of one."""
    _, *parts = name.split(".")
    found: object = wrapper_ir
    for index, part in enumerate(parts, start=1):
        try:
            found = getattr(found, part)
        except AttributeError:
            try:
                found = importlib.import_module(".".join(["wrapper_ir", *parts[:index]]))
            except ModuleNotFoundError:
                return False
    return True


def shown(page: Path) -> set[str]:
    """Return the files that a page makes itself, in blocks or by commands."""
    text = page.read_text(encoding="utf-8")
    files = {step.file for step in steps(page) if not isinstance(step, tuple)}
    commands = [step[0] for step in steps(page) if isinstance(step, tuple)]
    programs = re.findall(r"\bm\.\w+", text)  # "m" stands for any
    return files.union(programs, *(command.split() for command in commands))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_what_a_page_names_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    wrong = {path for path in PATH.findall(text) if not (ROOT / path).exists()}
    names = {Path(name).name for name in texts()} | {"constraints.txt", "pyproject.toml"}
    added = ADDED.get(page.name, set())
    for span in spans(page):
        if SOURCE.fullmatch(span) and Path(span).name not in names and span not in shown(page):
            wrong.add(span)
        wrong |= {each for each in DOTTED.findall(span) if each not in words() and not exists(each)}
        wrong |= {each for each in METHOD.findall(span) if not hasattr(PartialLineVisitor, each)}
        wrong |= set(CODE.findall(span)) - words()
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    wrong |= {f"make {target}" for target in TARGET.findall(text) if target not in targets}
    assert not wrong - added
