"""What was found: a file with a line of JSON for each workload, and words for people."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import torch

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.sweep.workload import Workload

__all__ = ["GOOD", "Results", "amiss", "failures", "summary"]

#: The first words of verdicts under which nothing is wrong with us.
GOOD: Final = ("same", "near", "no graph")

#: Peaks of memory that are larger than stock's by less than this are the same.
_PEAK, _BYTES = 1.02, 1 << 20


class Results:
    """The rows of a file that belong to a release of torch, a device and a seed.

    Args:
        path: The file, read if it is there, appended to.
        device: Of the rows.
        seed: Of the rows.

    Attributes:
        rows: By the number of the workload.
    """

    def __init__(self, path: Path, device: str, seed: int) -> None:
        self._path = path
        self._key = {"torch": torch.__version__, "device": device, "seed": seed}
        self.rows: dict[int, dict[str, Any]] = {}
        for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
            row = json.loads(line)
            if self._key.items() <= row.items():
                self.rows[row["number"]] = row

    def add(self, number: int, workload: Workload, answer: dict[str, Any]) -> None:
        """Keep what came of a workload."""
        row = {**self._key, "number": number, "workload": str(workload), **answer}
        self.rows[number] = row
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")


def amiss(row: dict[str, Any]) -> dict[str, str]:
    """Return the ways that did not do what stock did, with their verdicts."""
    return {way: said for way, said in row["ways"].items() if not said.startswith(GOOD)}


def failures(rows: list[dict[str, Any]], device: str) -> Iterator[str]:
    """Yield what is wrong, each with the command that shows it again."""
    for row in rows:
        for way, said in amiss(row).items():
            yield f"{row['workload']}\n  {way}: {said}"
        if amiss(row):
            yield f"  make sweep DEVICE={device} TRY='{row['workload']}'"


def summary(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Yield what came of workloads, in numbers."""
    stock = Counter(row["stock"].partition(":")[0] for row in rows)
    differs = sum(count for said, count in stock.items() if said not in _STOCK)
    counts = {**{said: stock[said] for said in _STOCK if stock[said]}, "differs": differs}
    yield f"{len(rows)} workloads; stock: " + ", ".join(
        f"{c} {said}" for said, c in counts.items() if c
    )
    for way in sorted({way for row in rows for way in row["ways"]}):
        said = Counter(row["ways"][way].partition(":")[0] for row in rows if way in row["ways"])
        yield f"  {way}: " + ", ".join(f"{count} {words}" for words, count in said.most_common())
    yield from _greater_peaks(rows)


#: What stock may do, besides giving other results at its second call.
_STOCK: Final = ("same twice", "stock fails", "does not fit", "lost")


def _greater_peaks(rows: list[dict[str, Any]]) -> Iterator[str]:
    found = []
    for row in rows:
        peaks = dict(row.get("peaks", {}))
        stock = peaks.pop("stock", 0)
        for way, peak in peaks.items():
            if peak > stock * _PEAK and peak > stock + _BYTES:
                found.append((peak / max(stock, 1), f"{row['workload']}: {way}", peak, stock))
    if found:
        yield f"Peaks of memory above stock's in {len(found)} cases, the greatest first:"
    for factor, what, peak, stock in sorted(found, reverse=True)[:10]:
        yield f"  {factor:.2f}x  {what}: {peak / 2**20:.0f} MiB, not {stock / 2**20:.0f}"
