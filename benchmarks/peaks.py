"""Compare the peaks of our memory plans with Inductor's for the same graphs.

    python -m benchmarks.peaks                  # the models of the tests, and those of memory.py
    python -m benchmarks.peaks unet --json

Figures are ratios to the lower bound. Inductor's planners (line by line, and ``memory_planning``
with each ``memory_pool``) run on copies of the very lines that ours plan. Allocations, pools and
results of library ops are counted alike, rounded up to 64 bytes. Nothing is compiled or run: the
numbers are exact.
The bound: neither ``reuse`` nor ``pool`` may exceed the best of Inductor's. ``kept`` may, because
it holds its arena all the time.
"""

from __future__ import annotations

import argparse
import math
from typing import TYPE_CHECKING, Any

from benchmarks.common import machine, show, verdict
from benchmarks.memory_models import MODELS, make
from tests.models.planners import OURS, POOLS, Peaks, compare
from tests.models.zoo import CASES

if TYPE_CHECKING:
    from collections.abc import Callable

STOCK = ("reuse", *POOLS)

#: Functions by name that return a model and its arguments. Models with graph breaks are left out.
SUBJECTS: dict[str, Callable[[], tuple[Any, Any]]] = {
    **{case.name: case.make for case in CASES if case.name != "graph_breaks"},
    **{f"large {name}": lambda name=name: make(name) for name in MODELS},
}


def record(name: str) -> dict[str, Any]:
    """Plan one model in every way."""
    peaks: Peaks = compare(*SUBJECTS[name]())
    best = min(peaks.stock.values())
    return {
        "model": name,
        "bound": peaks.bound,
        "stock": peaks.stock,
        "ours": peaks.ours,
        "worse": max(peaks.ours["reuse"], peaks.ours["pool"]) / best,
    }


def row(found: dict[str, Any]) -> tuple[str, ...]:
    """Format one record."""
    ratios = [
        nbytes / found["bound"] for nbytes in (*found["stock"].values(), *found["ours"].values())
    ]
    return (
        found["model"],
        f"{found['bound'] / 1024:,.1f}",
        *(f"{ratio:.3f}" for ratio in ratios),
        verdict(found["worse"], 1.0),
    )


def summary(records: list[dict[str, Any]], mean: bool) -> tuple[str, ...]:
    """Return the geometric means of all ratios, or the largest."""
    columns = [
        [found[side][way] / found["bound"] for found in records]
        for side, ways in (("stock", STOCK), ("ours", OURS))
        for way in ways
    ]
    values = [
        math.exp(sum(map(math.log, ratios)) / len(ratios)) if mean else max(ratios)
        for ratios in columns
    ]
    worst = max(found["worse"] for found in records)
    texts = (f"{value:.3f}" for value in values)
    return ("mean" if mean else "largest", "", *texts, "" if mean else verdict(worst, 1.0))


def main() -> None:
    """Plan the requested models."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"of {list(SUBJECTS)}")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    found = [record(name) for name in options.models or SUBJECTS]
    columns = (
        "model",
        "bound KiB",
        *(f"stock {w}" for w in STOCK),
        *(f"our {w}" for w in OURS),
        "kept",
    )
    rows = [*map(row, found), summary(found, mean=True), summary(found, mean=False)]
    show(
        "Peak over lower bound", columns, rows, {"machine": machine(), "found": found}, options.json
    )


if __name__ == "__main__":
    main()
