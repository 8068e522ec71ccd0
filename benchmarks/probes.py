"""Measure the cost of a probe at each level, in each emitter, on a small and a large tensor.

.venv/bin/python benchmarks/probes.py

Two programs that differ only in their probes are called alternately. A cell is the difference of
their times divided by the number of probes, as the median of several rounds. Lines go to
``/dev/null``, files to a temporary directory.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import torch
from rich.console import Console
from rich.table import Table

import wrapper_ir as wir
from wrapper_ir.debug_printer import LEVEL_NAMES, DebugPrinter, debug_session, hook

if TYPE_CHECKING:
    from collections.abc import Callable

_TARGETS: Final = ("python", "cpp", "fx")
_LEVELS: Final = tuple(level for level in LEVEL_NAMES if level != "off")
_CALLS: Final = 5
_SMALL, _LARGE = 64, 1 << 20
_ROUNDS: Final = 5
_SECONDS: Final = 0.05
"""Target duration of one side of a round, unless a single call takes longer."""

#: Passes over a tensor's bytes by level: reading it, and writing copies of it.
_PASSES: Final = {
    "save": "read 2, write 2",
    "print": "read 2",
    "names": "none",
    "check": "read 1",
    "check_nan": "read 1",
    "stats": "read 3",
    "compare": "read 4, write 2",
    "hook": "none",
}

#: The limit in microseconds for a line of ``names``.
_BOUND: Final = 1.0


def _program(elements: int) -> wir.Program:
    """Return a program of cheap calls that each change one tensor in place."""
    calls = "\n".join(["  call @touch(inout %x)"] * _CALLS)
    return wir.parse(f"""
wir 2
program @touching inference planned
input %x : f32[{elements}] @cpu
kernel @touch(in_out_ptr0: inout f32) cpp
  | extern "C" void kernel(float* x)
  | {{
  |     x[0] += 1;
  | }}
  |
{calls}
return %x
""")


def _probed(program: wir.Program, level: str, target: str) -> Callable[..., Any]:
    return wir.compile(program, target, debug=DebugPrinter(level, when="after"))


def _seconds(function: Callable[..., Any], x: torch.Tensor) -> float:
    """Return the mean time of one call over a short while."""
    start, times = time.perf_counter(), 0
    while (passed := time.perf_counter() - start) < _SECONDS:
        function(x)
        times += 1
    return passed / times


def _microseconds(level: str, target: str, elements: int, folder: Path) -> float:
    """Return the cost of one probe."""
    program, x = _program(elements), torch.ones(elements)
    plain, probed = (_probed(program, name, target) for name in ("off", level))
    with debug_session(folder / "saved", output=os.devnull, limit=0) as saved:
        if level == "compare":
            _probed(program, "save", "python")(x)
    found = []
    for round_ in range(_ROUNDS + 1):
        session = debug_session(
            folder / f"run{round_}",
            reference=saved.directory if level == "compare" else None,
            output=os.devnull,
            limit=0,
        )
        with session, hook(lambda _: None):
            cost = _seconds(probed, x) - _seconds(plain, x)
        found.append(cost / _CALLS * 1e6)
    return statistics.median(found[1:])  # the first round warms everything up


def main() -> None:
    """Run the measurements and print the table."""
    table = Table("level", "passes over the tensor", *_headings())
    names = {}
    for level in _LEVELS:
        cells = []
        for elements in (_SMALL, _LARGE):
            for target in _TARGETS:
                with tempfile.TemporaryDirectory(prefix="wrapper_ir-probes-") as folder:
                    cost = _microseconds(level, target, elements, Path(folder))
                cells.append(f"{cost:.2f}" if cost < 100 else f"{cost:.0f}")
                if level == "names" and elements == _SMALL:
                    names[target] = cost
        table.add_row(level, _PASSES[level], *cells)
    console = Console(width=110)
    console.print("Microseconds a probe, after a call that wrote one tensor of float32")
    console.print(table)
    for target in ("python", "cpp"):
        verdict = "within" if names[target] <= _BOUND else "OVER"
        console.print(f"a line of names, {target}: {names[target]:.2f} us, {verdict} {_BOUND} us")
    program = wir.plan_memory(_program(_SMALL))
    off = wir.insert_probes(program, DebugPrinter("off"))
    same = all(wir.emit(off, t).source == wir.emit(program, t).source for t in _TARGETS)
    console.print(f"off: emitted text {'is the same' if same else 'DIFFERS'}")


def _headings() -> list[str]:
    sizes = {_SMALL: "256 B", _LARGE: "4 MiB"}
    return [f"{target} {sizes[n]}" for n in (_SMALL, _LARGE) for target in _TARGETS]


if __name__ == "__main__":
    main()
