"""Time comparisons of two long programs that differ in several ways.

    python benchmarks/diff.py            # 10,000 lines
    python benchmarks/diff.py 50000      # another length

The program is that of ``benchmarks/long_program.py``. The clock is the process's CPU time, because
everything is plain Python in one thread. Each pair is compared once, with the garbage collector off
as in ``timeit``.
"""

from __future__ import annotations

import argparse
import dataclasses
import gc
import random
import sys
import time
from typing import TYPE_CHECKING

import wrapper_ir as wir
from benchmarks.long_program import long_program
from wrapper_ir import lines as ir

if TYPE_CHECKING:
    from collections.abc import Callable

#: The limit in seconds for a comparison of 10,000 lines.
BOUND = 2.0


def edited(program: wir.Program) -> wir.Program:
    """Change the last argument of every hundredth line that is a call."""
    body = list(program.body)
    for number in range(0, len(body), 100):
        line = body[number]
        if isinstance(line, ir.KernelCall):
            body[number] = dataclasses.replace(line, args=(*line.args[:-1], ir.ScalarArg(7)))
    return program.replace(body=tuple(body))


def thinned(program: wir.Program) -> wir.Program:
    """Drop every fiftieth line."""
    return program.replace(body=tuple(line for n, line in enumerate(program.body) if n % 50 != 49))


def moved(program: wir.Program) -> wir.Program:
    """Move all allocations to the front."""
    body = sorted(program.body, key=lambda line: not isinstance(line, ir.Allocate))
    return program.replace(body=tuple(body))


def shuffled(program: wir.Program) -> wir.Program:
    """Shuffle the lines."""
    body = list(program.body)
    random.Random(0).shuffle(body)
    return program.replace(body=tuple(body))


CASES: dict[str, Callable[[wir.Program], wir.Program]] = {
    "renamed": wir.canonical,
    "edited": edited,
    "thinned": thinned,
    "planned": wir.plan_memory,
    "moved": moved,
    "shuffled": shuffled,
}


def main() -> None:
    """Run and time the comparisons; return exit code 1 if one took too long."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("lines", type=int, nargs="?", default=10_000)
    count = parser.parse_args().lines
    short = long_program(100)
    wir.diff(short, edited(short))  # keep imports and first-use caches out of the measurement
    before = long_program(count)
    slowest = 0.0
    for name, change in CASES.items():
        after = change(before)
        gc.collect()
        gc.disable()
        start = time.process_time()
        found = wir.diff(before, after)
        seconds = time.process_time() - start
        gc.enable()
        slowest = max(slowest, seconds)
        print(f"{name:<10} {seconds:6.2f} s  {str(found).splitlines()[0]}")
    start = time.process_time()
    before.canonical()
    print(f"{'canonical':<10} {time.process_time() - start:6.2f} s")
    bound = BOUND * count / 10_000
    print(f"bound {bound:.2f} s: {'met' if slowest <= bound else 'missed'}")
    sys.exit(slowest > bound)


if __name__ == "__main__":
    main()
