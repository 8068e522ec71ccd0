"""Time to compare two long programs that differ in several ways.

    python benchmarks/diff.py            # 10,000 lines
    python benchmarks/diff.py 50000      # another length

The program is that of ``benchmarks/long_program.py``. The clock is the processor time of the
process, as all is plain Python in one thread; each pair is compared once. As with ``timeit`` the
garbage collector is off meanwhile.
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

#: The most seconds that a comparison of 10,000 lines may take.
BOUND = 2.0


def edited(program: wir.Program) -> wir.Program:
    """Every hundredth line that is a call has another last argument."""
    body = list(program.body)
    for number in range(0, len(body), 100):
        line = body[number]
        if isinstance(line, ir.KernelCall):
            body[number] = dataclasses.replace(line, args=(*line.args[:-1], ir.ScalarArg(7)))
    return program.replace(body=tuple(body))


def thinned(program: wir.Program) -> wir.Program:
    """Every fiftieth line is missing."""
    return program.replace(body=tuple(line for n, line in enumerate(program.body) if n % 50 != 49))


def moved(program: wir.Program) -> wir.Program:
    """All allocations come first."""
    body = sorted(program.body, key=lambda line: not isinstance(line, ir.Allocate))
    return program.replace(body=tuple(body))


def shuffled(program: wir.Program) -> wir.Program:
    """The same lines in any order."""
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
    """Compare, and say how long it took; the exit code is 1 where it took too long."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("lines", type=int, nargs="?", default=10_000)
    count = parser.parse_args().lines
    short = long_program(100)
    wir.diff(short, edited(short))  # imports and first-use caches are not what is measured
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
