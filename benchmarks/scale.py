"""Time building, verifying, planning, printing, parsing and emitting up to 100,000 lines.

    python benchmarks/scale.py               # 25,000, 50,000 and 100,000 lines
    python benchmarks/scale.py --json
    python benchmarks/scale.py 1000 10000    # other lengths

Each length runs in its own process, so that no length profits from caches filled by an earlier one.
The clock is the process's CPU time: all steps are plain Python in one thread. As in ``timeit``, the
garbage collector is off while the clock runs (``--gc`` leaves it on: each step then also pays for
walking all objects of the process, torch's modules included). The exponent describes how time grows
with length from the shortest to the longest program: 1 is linear. Printing, parsing and emitting
use the planned program, which is longer by the frees.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import subprocess
import sys
import time
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: Steps and the limit in seconds for each at 100,000 lines.
BOUNDS = {
    "build": 5.0,
    "verify": 5.0,
    "plan": 5.0,
    "verify planned": 5.0,
    "print": 5.0,
    "parse": 10.0,
    "emit": 5.0,
}

#: The largest exponent that counts as linear: a factor of 1.15 per doubling above exact linearity.
LARGEST_EXPONENT = 1.2

T = TypeVar("T")


def measure(lines: int, *, collector: bool) -> dict[str, float]:
    """Run every step twice in this process; return the better time of each, in seconds."""
    import wrapper_ir as wir
    from benchmarks.long_program import long_program

    long_program(100)  # keep imports and first-use caches out of the measurement
    found: dict[str, float] = {}

    def timed(step: str, action: Callable[[], T]) -> T:
        once(step, action)
        return once(step, action)

    def once(step: str, action: Callable[[], T]) -> T:
        gc.collect()
        if not collector:
            gc.disable()
        start = time.process_time()
        result = action()
        found[step] = min(time.process_time() - start, found.get(step, math.inf))
        gc.enable()
        return result

    program = timed("build", lambda: long_program(lines))
    # Copies, because a program is verified only once. Planning and emitting get programs that are
    # already verified, so that only their own time counts.
    timed("verify", lambda: wir.verify(program.replace()))
    wir.verify(program)
    planned = timed("plan", lambda: wir.plan_memory(program))
    timed("verify planned", lambda: wir.verify(planned.replace()))
    wir.verify(planned)
    text = timed("print", lambda: str(planned))
    parsed = timed("parse", lambda: wir.parse(text))
    # Copies again, because an analysis of a program is made only once, too.
    copies = iter([wir.verify(planned.replace()) for _ in range(2)])
    source = timed("emit", lambda: wir.emit(next(copies), "python").source)
    if parsed != planned:
        raise AssertionError("the text form did not round-trip")
    found["lines"], found["planned lines"] = len(program.body), len(planned.body)
    found["text bytes"], found["source bytes"] = len(text), len(source)
    return found


def measure_apart(lines: int, *, collector: bool) -> dict[str, float]:
    """Measure in a fresh process.

    Raises:
        SystemExit: The run failed; its own message has been shown.
    """
    command = [sys.executable, "-m", "benchmarks.scale", "--here", str(lines)]
    command += ["--gc"] if collector else []
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.returncode)
    result: dict[str, float] = json.loads(done.stdout)
    return result


def exponent(found: Sequence[dict[str, float]], step: str) -> float:
    """Return the exponent with which the time of a step grows with the length."""
    first, last = found[0], found[-1]
    return math.log(last[step] / first[step]) / math.log(last["lines"] / first["lines"])


def rows(found: Sequence[dict[str, float]]) -> list[tuple[str, ...]]:
    """Format a row for each step."""
    from benchmarks.common import verdict

    result = []
    for step, bound in BOUNDS.items():
        grows = exponent(found, step)
        seconds = found[-1][step]
        kept = seconds / bound if grows <= LARGEST_EXPONENT else math.inf
        times = [f"{one[step]:.2f}" for one in found]
        result.append((step, *times, f"{grows:.2f}", f"{bound:.0f}", verdict(kept, 1.0)))
    return result


def main() -> None:
    """Measure the requested lengths."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("lengths", nargs="*", type=int, default=[25_000, 50_000, 100_000])
    parser.add_argument("--here", action="store_true", help="one length, in this process, as JSON")
    parser.add_argument("--gc", action="store_true", help="leave the garbage collector on")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    if options.here:
        print(json.dumps(measure(options.lengths[0], collector=options.gc)))
        return
    found = [measure_apart(lines, collector=options.gc) for lines in sorted(options.lengths)]
    from benchmarks.common import machine, show

    columns = (
        "step",
        *(f"{int(one['lines']):,} s" for one in found),
        "exponent",
        "bound s",
        "kept",
    )
    record = {"machine": machine(), "lengths": found}
    show("Long programs", columns, rows(found), record, as_json=options.json)


if __name__ == "__main__":
    main()
