"""Programs that were run differently somewhere, as files that show it again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from tests.fuzz.compare import WAYS, difference
from tests.fuzz.objects import stored
from wrapper_ir.debugging import reduce
from wrapper_ir.lines.control import input_name

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fuzz.session import Case
    from wrapper_ir.lines import Program

_SCRIPT = '''\
"""Seed {seed}: {words}"""

import torch

import wrapper_ir as wir
from tests.fuzz.compare import difference
from tests.fuzz.objects import load_classes, restored

load_classes()
program = wir.load("program.wir")
inputs = list(map(restored, torch.load("inputs.pt", weights_only=True)))
print(difference(program, inputs, {ways!r}) or "no difference")
'''


def report(case: Case, root: Path, *, small: bool) -> Path:
    """Writes what shows a failure again: the program, made smaller if wanted, and its inputs."""
    program, inputs = case.made.program, case.made.inputs()
    names = [input_name(item) for item in program.inputs]
    values = dict(zip(names, inputs, strict=True))
    way = case.failure.partition(":")[0]
    ways = [way] if way in WAYS else []
    if small:
        program = _reduced(program, values, ways)
    folder = root / f"seed_{case.seed}"
    folder.mkdir(parents=True, exist_ok=True)
    program.save(folder / "program.wir")
    given = [stored(values[input_name(item)]) for item in program.inputs]
    torch.save(given, folder / "inputs.pt")
    words = case.failure.replace("\\", "/").replace('"""', "'''")
    text = _SCRIPT.format(seed=case.seed, words=words, ways=ways)
    (folder / "show.py").write_text(text, encoding="utf-8")
    return folder


def _reduced(program: Program, values: dict[str, Any], ways: list[str]) -> Program:
    def kind_of(candidate: Program) -> str:
        given = [values[input_name(item)] for item in candidate.inputs]
        return _kind(difference(candidate, given, ways))

    kind = kind_of(program)
    # What does not show in one program alone is left as it is.
    return reduce(program, lambda candidate: kind_of(candidate) == kind) if kind else program


def _kind(words: str) -> str:
    """What stays the same of a failure while its program gets smaller: way and error."""
    return ":".join(words.split(":")[:2]).partition("[")[0]
