"""Runs of a program in which each call saves what it writes."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import torch

from wrapper_ir.api import compile as compile_program
from wrapper_ir.debugging.extract import copies, planned, with_own_state
from wrapper_ir.interpreter import interpret
from wrapper_ir.passes.printer import DebugPrinter
from wrapper_ir.passes.probes import insert_probes, poison
from wrapper_ir.runtime.probes import debug_session

if TYPE_CHECKING:
    from wrapper_ir.lines.program import Program

#: The name that selects the reference interpreter in place of an emitter.
INTERPRETER: Final = "interpreter"


@dataclass(frozen=True)
class Saved:
    """The tensors that a run saved.

    Attributes:
        folder: Their folder.
        entries: A row for each of them, in order: ``call``, ``when``, ``buffer``, ``file``.
    """

    folder: Path
    entries: list[dict[str, Any]]

    def load(self, position: int) -> torch.Tensor:
        """Return the tensor of an entry."""
        file = self.folder / self.entries[position]["file"]
        tensor: torch.Tensor = torch.load(file, weights_only=True)
        return tensor


def read_saved(folder: Path) -> Saved:
    """Read the index of a folder of saved tensors."""
    lines = (folder / "index.jsonl").read_text(encoding="utf-8").splitlines()
    return Saved(folder, [entry for line in lines if "file" in (entry := json.loads(line))])


def place_of(entry: dict[str, Any]) -> tuple[str, str, str]:
    """Return a call's number, its buffer and its op; kernel names may differ between versions."""
    number, _, name = entry["call"].partition(" ")
    return number, entry["buffer"], name if "::" in name else ""


@dataclass(frozen=True)
class SavedRun:
    """What a run left.

    Attributes:
        saved: The tensors that its calls wrote.
        results: The results.
        inputs: The inputs afterwards.
    """

    saved: Saved
    results: Sequence[Any]
    inputs: Sequence[Any]


def runnable(program: Program, target: str) -> Program:
    """Return the program as it is run: planned, unless it is interpreted."""
    return program if target == INTERPRETER else planned(program)


def saved_run(
    program: Program, target: str, inputs: Sequence[Any], folder: Path, number: float = math.nan
) -> SavedRun:
    """Run a program on copies of its inputs, with all outputs of calls saved.

    Args:
        program: The program; for an emitter, a planned one.
        target: An emitter that renders probes, or ``interpreter``.
        inputs: Its inputs.
        folder: Where to save tensors.
        number: What new memory is filled with. The interpreter fills it with NaN by itself.
    """
    probed = insert_probes(program, DebugPrinter("save", when="after"))
    own = copies(inputs)
    with debug_session(folder, limit=0) as session:
        if target == INTERPRETER:
            results = interpret(with_own_state(probed), *own)
        else:
            filled = with_own_state(poison(probed, number))
            results = compile_program(filled, target, debug="off")(*own)
        return SavedRun(read_saved(session.directory), results, own)
