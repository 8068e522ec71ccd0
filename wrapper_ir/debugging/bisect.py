"""Which call of a program is the first to give something else in another run."""

from __future__ import annotations

import json
import math
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from wrapper_ir.api import compile as compile_program
from wrapper_ir.debug_printer import Call, DebugPrinter, calls_of, insert_probes, poison
from wrapper_ir.debugging.errors import DifferentCallsError
from wrapper_ir.debugging.extract import copies, extract, with_own_state
from wrapper_ir.lines.program import Program, Stage
from wrapper_ir.planning import plan_memory
from wrapper_ir.runtime.probes import debug_session, difference

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["BisectResult", "bisect"]


@dataclass(frozen=True)
class BisectResult:
    """What a comparison of two runs has found.

    Attributes:
        call: The first call that wrote something else; None when there is none.
        buffer: What it wrote differently; empty when there is none.
        words: How the two differ.
        compared: How many tensors were compared, up to the difference.
        folder: The reproducer, where one was asked for.
    """

    call: Call | None
    buffer: str
    words: str
    compared: int
    folder: Path | None = None

    def __bool__(self) -> bool:
        """Whether a difference was found."""
        return self.call is not None

    def __str__(self) -> str:
        if self.call is None:
            return f"no difference in {self.compared} tensors"
        return f"{self.call.label} ({self.call.path}) wrote another {self.buffer}: {self.words}"


def bisect(  # noqa: PLR0913 - three of them are the two runs
    program: Program,
    inputs: Sequence[Any],
    a: str = "python",
    b: str = "python",
    *,
    other: Program | None = None,
    tolerance: tuple[float, float] = (0.0, 0.0),
    folder: str | Path | None = None,
) -> BisectResult:
    """Run a program with two emitters, or two versions of it, and find the first call that differs.

    What every call wrote is kept on disk for both runs and compared in the order of the first run.
    New memory is filled with one number in one run and with NaN in the other, so that a call that
    reads memory before it is written differs too, even between two runs of one emitter.

    Args:
        program: The program, run by ``a``.
        inputs: Its inputs; each run has copies of its own.
        a: An emitter that renders probes.
        b: Another.
        other: What ``b`` runs instead: the same program with, say, another source of a kernel.
        tolerance: Relative and absolute; by default results must be equal.
        folder: Where to write a reproducer of the call, which must not exist: the call as a program
            of its own with its inputs, what ``a`` gave for them, and a test.

    Raises:
        DifferentCallsError: The programs do not make the same calls.
        FileExistsError: The folder exists.
    """
    one, two = _planned(program), _planned(other if other is not None else program)
    with tempfile.TemporaryDirectory(prefix="wrapper_ir-bisect-") as root:
        runs = [
            _run(each, target, inputs, Path(root) / name, number)
            for each, target, name, number in ((one, a, "a", 1e4), (two, b, "b", math.nan))
        ]
        result = _compare(one, runs[0], runs[1], tolerance)
    if result.call is None or folder is None:
        return result
    written = extract(one, result.call.number, inputs, target=a).write(folder)
    return BisectResult(result.call, result.buffer, result.words, result.compared, written)


def _planned(program: Program) -> Program:
    return program if program.stage is Stage.PLANNED else plan_memory(program)


def _run(program: Program, target: str, inputs: Sequence[Any], folder: Path, number: float) -> Path:
    """Run with everything saved, and new memory filled with a number: then chance cannot agree."""
    probed = poison(insert_probes(program, DebugPrinter("save", when="after")), number)
    probed = with_own_state(probed)
    with debug_session(folder, limit=0) as session:
        compile_program(probed, target, debug="off")(*copies(inputs))
        return session.directory


def _compare(
    program: Program, one: Path, two: Path, tolerance: tuple[float, float]
) -> BisectResult:
    calls = {call.label: call for call in calls_of(program)}
    compared = 0
    left, right = _index(one), _index(two)
    for position, entry in enumerate(left):
        place = f"{entry['call']} {entry['buffer']}"
        if position >= len(right) or _key(right[position]) != _key(entry):
            raise DifferentCallsError(place=place)
        got = _load(two / right[position]["file"])
        words = difference(got, _load(one / entry["file"]), tolerance)
        compared += 1
        if words:
            return BisectResult(calls[entry["call"]], entry["buffer"], words, compared)
    return BisectResult(None, "", "", compared)


def _key(entry: dict[str, Any]) -> tuple[str, str]:
    return entry["call"], entry["buffer"]


def _index(folder: Path) -> list[dict[str, Any]]:
    lines = (folder / "index.jsonl").read_text(encoding="utf-8").splitlines()
    return [entry for line in lines if "file" in (entry := json.loads(line))]


def _load(file: Path) -> torch.Tensor:
    tensor: torch.Tensor = torch.load(file, weights_only=True)
    return tensor
