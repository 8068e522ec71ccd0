"""The page ``docs/add-a-line.md``, carried out in a copy of the tree."""

from __future__ import annotations

import ast
import shutil
from typing import TYPE_CHECKING

import pytest

from tests import warm
from tests.pages import ROOT, blocks

if TYPE_CHECKING:
    from pathlib import Path

PAGE = ROOT / "docs" / "add-a-line.md"

TRY = """
import sys
sys.path.insert(0, {tree!r})
import wrapper_ir as wir
import wrapper_ir.lines as ir
from wrapper_ir.errors import WrapperIRError
from wrapper_ir.lines.walk import Renaming
assert wir.__file__.startswith({tree!r})

text = {text!r}
program = wir.parse(text)
printed = wir.print_program(program)
assert printed.split() == text.split()
assert wir.parse(printed) == program
line = program.body[1]
assert line == ir.Zero("a")
found = ir.effects(line, program)
assert (found.writes, found.written, found.reads) == (["a"], ["a"], [])
renamed = Renaming(lambda name: name + "_1", str, str).program(program)
assert renamed.body[1] == ir.Zero("a_1")
wir.verify(program)
try:
    wir.verify(wir.parse(text.replace("zero %a", "zero %b")))
except WrapperIRError as error:
    assert "%b" in str(error)
else:
    raise AssertionError
try:
    wir.parse(text.replace("zero %a", "zeor %a"))
except WrapperIRError as error:
    assert error.hint == "did you mean 'zero'?"
else:
    raise AssertionError
assert not wir.diff(program, program)

import torch
assert torch.equal(wir.interpret(program)[0], torch.zeros(2, 3))
assert "a.zero_()" in wir.emit(program, "python").source
for emitter in ("python", "fx"):
    assert torch.equal(wir.emit(program, emitter).load()()[0], torch.zeros(2, 3)), emitter
try:
    wir.emit(program, "cpp")
except WrapperIRError as error:
    assert "no kernel writes zeros in C++ yet" in str(error)
else:
    raise AssertionError
"""


def hunks(text: str) -> list[tuple[str, str, str]]:
    """Return the changes of a block: each a file, what stands there, and what is to."""
    found = []
    for part in text.split("--- ")[1:]:
        file, _, rest = part.partition("\n")
        for hunk in rest.split("@@\n"):
            lines = hunk.splitlines()
            old = "\n".join(line[1:] for line in lines if line[:1] != "+")
            new = "\n".join(line[1:] for line in lines if line[:1] != "-")
            found.append((file, old, new))
    return found


def carry_out(tree: Path, *, steps: int = 5) -> None:
    """Make the changes of the first steps of the page."""
    changes = [block for block in blocks(PAGE) if block.language == "diff"]
    assert len(changes) == 5
    for block in changes[:steps]:
        for file, old, new in hunks(block.text):
            path = tree / file
            text = path.read_text(encoding="utf-8")
            assert text.count(old + "\n") == 1, (file, old)
            path.write_text(text.replace(old + "\n", new + "\n"), encoding="utf-8")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    ignored = shutil.ignore_patterns("__pycache__", "native")
    shutil.copytree(ROOT / "wrapper_ir", tmp_path / "wrapper_ir", ignore=ignored)
    return tmp_path


def test_the_five_steps_make_a_line_that_is_known_everywhere(tree: Path) -> None:
    carry_out(tree)
    (text,) = [block.text for block in blocks(PAGE) if block.language == "wir"]
    done = warm.run(TRY.format(tree=str(tree), text=text), cwd=tree)
    assert done.returncode == 0, done.stderr


def test_a_line_that_no_visitor_knows_is_found_when_the_package_is_imported(tree: Path) -> None:
    carry_out(tree, steps=2)
    program = f"import sys; sys.path.insert(0, {str(tree)!r}); import wrapper_ir.lines"
    done = warm.run(program, cwd=tree)
    assert done.returncode != 0
    assert "LineVisitor has no visit_zero, for Zero" in done.stderr


def test_nothing_of_it_is_in_the_tree_itself() -> None:
    module = ast.parse((ROOT / "wrapper_ir/lines/memory.py").read_text(encoding="utf-8"))
    assert "Zero" not in {each.name for each in module.body if isinstance(each, ast.ClassDef)}
