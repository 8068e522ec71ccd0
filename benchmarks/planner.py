"""Measure how close planned offsets come to the lower bound, and how fast, up to 100,000 buffers.

    python benchmarks/planner.py                          # synthetic lifetimes
    python benchmarks/planner.py --json
    python benchmarks/planner.py --csv DIRECTORY          # every CSV in it too (MiniMalloc's form)

There are two kinds of synthetic lifetimes. *Inference-like*: buffers of log-uniform sizes that live
for a few steps, one in twenty for up to two hundred. *Training-like*: half of them live until
the mirrored step of a backward pass, the others for a few steps. The clock is the process's CPU
time; everything is plain Python in one thread.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from pathlib import Path
from typing import NamedTuple

from wrapper_ir.planning import assign_offsets, read_intervals
from wrapper_ir.planning.offsets import check_offsets


class Case(NamedTuple):
    """Intervals to plan, and the limits on time and on the ratio to the lower bound."""

    name: str
    intervals: list[tuple[int, int, int]]
    alignment: int
    seconds: float
    ratio: float


def inference_like(count: int, seed: int = 1) -> list[tuple[int, int, int]]:
    draw = random.Random(seed)
    made = []
    for step in range(count):
        life = draw.randint(10, 200) if draw.random() < 0.05 else 1 + min(draw.getrandbits(3), 6)
        made.append((step, step + life, 64 * int(2 ** draw.uniform(0, 14))))
    return made


def training_like(count: int, seed: int = 1) -> list[tuple[int, int, int]]:
    draw = random.Random(seed)
    made = []
    for step in range(count):
        size = 64 * int(2 ** draw.uniform(0, 14))
        mirrored = 2 * count - step
        is_saved = draw.random() < 0.5
        made.append((step, mirrored if is_saved else step + draw.randint(1, 5), size))
    return made


def made_up() -> list[Case]:
    cases = []
    for count, seconds in ((1_000, 0.5), (10_000, 0.5), (100_000, 1.0)):
        cases.append(Case(f"inference-like, {count:,}", inference_like(count), 64, seconds, 1.15))
        cases.append(Case(f"training-like, {count:,}", training_like(count), 64, seconds, 1.05))
    return cases


def measure(case: Case) -> dict[str, object]:
    start = time.process_time()
    plan = assign_offsets(case.intervals, case.alignment)
    seconds = time.process_time() - start
    check_offsets(case.intervals, plan.offsets, alignment=case.alignment, height=plan.height)
    return {
        "name": case.name,
        "seconds": round(seconds, 3),
        "most_seconds": case.seconds,
        "ratio": round(plan.ratio, 5),
        "most_ratio": case.ratio,
        "winner": plan.winner,
        "holds": seconds <= case.seconds and plan.ratio <= case.ratio,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--csv", type=Path, metavar="DIRECTORY")
    options = parser.parse_args()
    cases = made_up()
    for path in sorted(options.csv.glob("*.csv")) if options.csv else ():
        table = read_intervals(path.read_text(encoding="utf-8"), path.name)
        cases.append(Case(path.name, [row.interval for row in table.rows], 1, 1.0, 1.50))
    rows = []
    for case in cases:
        rows.append(measure(case))
        if not options.json:
            row = rows[-1]
            print(
                f"{row['name']:28} {row['seconds']:7.3f} s (<= {row['most_seconds']})"
                f"   {row['ratio']:.5f} x bound (<= {row['most_ratio']})"
                f"   {'ok  ' if row['holds'] else 'MISS'} {row['winner']}"
            )
    if options.json:
        print(json.dumps(rows, indent=2))


if __name__ == "__main__":
    main()
