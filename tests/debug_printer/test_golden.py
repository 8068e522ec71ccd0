"""What each level says of one program, as files to read; every emitter says exactly that.

To write the files anew, set ``WRITE`` for one run, and read the diff.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch

import wrapper_ir as wir
from wrapper_ir.debug_printer import LEVEL_NAMES, DebugPrinter, ProbeEvent, debug_session, hook
from wrapper_ir.runtime import NonFiniteError

if TYPE_CHECKING:
    from collections.abc import Callable

FOLDER = Path(__file__).parent / "golden"
#: Whether to write the files instead of comparing with them.
WRITE = False

NAN, INF = math.nan, math.inf
X = torch.tensor([[1.0, -2.0, 0.5, 3.0], [NAN, INF, 2.0, -0.25]])
FINITE = torch.tensor([[1.0, -2.0, 0.5, 3.0], [4.0, 8.0, 2.0, -0.25]])
W = torch.tensor([1.0, 0.5, 2.0, 1.0])
P = torch.tensor(True)


def made(level: str, target: str) -> Callable[..., object]:
    program = wir.parse((FOLDER / "program.wir").read_text()).replace(data={"w": W})
    return wir.compile(program, target, debug=DebugPrinter(level, when="both"))


def off(target: str, folder: Path) -> str:
    with debug_session(folder / "run", output=folder / "log"):
        made("off", target)(X, P)
    assert not (folder / "run").exists()
    return (folder / "log").read_text()


def lines(level: str, target: str, folder: Path) -> str:
    with debug_session(folder / "run", output=folder / "log"):
        made(level, target)(X, P)
    return (folder / "log").read_text()


def save(target: str, folder: Path) -> str:
    with debug_session(folder / "run") as session:
        made("save", target)(X, P)
    return (session.directory / "index.jsonl").read_text()


def stats(target: str, folder: Path) -> str:
    with debug_session(folder / "run") as session:
        made("stats", target)(X, P)
    entries = map(json.loads, (session.directory / "stats.jsonl").read_text().splitlines())
    return "".join(f"{json.dumps(rounded(entry))}\n" for entry in entries)


def rounded(entry: dict[str, Any]) -> dict[str, Any]:
    """The last digits of moments depend on how wide the processor adds."""
    means = {key: round(entry[key], 9) for key in ("mean", "std") if entry[key] is not None}
    return {**entry, **means}


def check(target: str, folder: Path) -> str:
    function = made("check", target)
    with debug_session(folder / "run"):
        function(FINITE, P)
        with pytest.raises(NonFiniteError) as caught:
            function(X, P)
    return f"{caught.value}\n"


def check_nan(target: str, folder: Path) -> str:
    """What is infinite passes, in the inputs as in the results."""
    function = made("check_nan", target)
    with debug_session(folder / "run"):
        function(X.nan_to_num(nan=5.0, posinf=INF), P)
        with pytest.raises(NonFiniteError) as caught:
            function(X, P)
    return f"{caught.value}\n"


def compare(target: str, folder: Path) -> str:
    with debug_session(folder / "good"):
        made("save", target)(X, P)
    with debug_session(reference=folder / "good", output=folder / "log"):
        made("compare", target)(FINITE, P)
    return (folder / "log").read_text()


def hooks(target: str, folder: Path) -> str:
    del folder
    seen: list[str] = []

    def look(event: ProbeEvent) -> None:
        sizes = {name: tuple(tensor.shape) for name, tensor in event.tensors.items()}
        seen.append(f"{event.call} {event.when} {sizes} {event.scalars}\n")

    with hook(look):
        made("hook", target)(X, P)
    return "".join(seen)


LEVELS: dict[str, Callable[[str, Path], str]] = {
    "off": off,
    "save": save,
    "print": lambda target, folder: lines("print", target, folder),
    "names": lambda target, folder: lines("names", target, folder),
    "check": check,
    "check_nan": check_nan,
    "stats": stats,
    "compare": compare,
    "hook": hooks,
}


@pytest.mark.parametrize("target", ["python", "fx", "cpp"])
@pytest.mark.parametrize("level", LEVEL_NAMES)
def test_golden(level: str, target: str, tmp_path: Path) -> None:
    found = LEVELS[level](target, tmp_path)
    file = FOLDER / f"{level}.txt"
    if WRITE:
        file.write_text(found)
    assert found == file.read_text()
