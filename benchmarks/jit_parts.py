"""Where the time of a call of ``wir.jit`` goes.

    python -m benchmarks.jit_parts              # four hundred parameters, twenty embeddings
    python -m benchmarks.jit_parts mlp          # one of the models of benchmarks/whole_call.py

A call is a function of Python, which calls a table in C++. The table compares what the model can
read with what it was, then it runs the program, which looks where its constants are. The script
times the whole call, the table, its tests and the program, in turn (an order that is drawn, and
the model itself before each, as a program does something else between calls) and in loops. It takes
the processor time of one thread, and medians.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = "1"  # before torch makes its pools

import argparse
import gc
import statistics
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

import wrapper_ir as wir
from benchmarks.common import Call, show
from benchmarks.whole_call import in_drawn_order, timed
from benchmarks.whole_call_models import SUBJECTS

if TYPE_CHECKING:
    import random
    from collections.abc import Mapping

_TURNS, _ROUNDS, _LOOP = 600, 200, 20


def parts_of(name: str) -> tuple[dict[str, Call], Call]:
    """Return a call of a subject and its parts, and the model's own."""
    torch.manual_seed(0)
    function, args = SUBJECTS[name].make()
    jitted: Any = wir.jit(function, target="cpp", fallback=False)
    jitted(*args)
    table = jitted._table
    (entry,) = table.entries
    if difference := entry.difference(*args):
        raise RuntimeError(f"the call is not the one that was captured: {difference}")
    program = wir.compile(jitted.programs[0], "cpp")
    calls = {"wir.jit": jitted, "table": table, "tests": entry.difference, "program": program}
    return {part: partial(each, *args) for part, each in calls.items()}, partial(function, *args)


def medians(calls: Mapping[str, Call], between: Call) -> dict[str, dict[str, float]]:
    """Return microseconds of each call by manner, less what reading the clock takes."""

    def drawn(_: random.Random) -> dict[str, Call]:
        return {**calls, "": lambda: None}

    def once(_: str, call: Call) -> float:
        between()
        return timed(call)

    def batch(_: str, call: Call) -> float:
        call()
        return timed(call, _LOOP)

    found = {
        "in turn": in_drawn_order(drawn, _TURNS, once),
        "in loops": in_drawn_order(drawn, _ROUNDS, batch),
    }
    return {
        manner: {
            part: statistics.median(times[part]) - statistics.median(times[""]) for part in calls
        }
        for manner, times in found.items()
    }


def main() -> None:
    """Show the parts of some subjects' calls."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("subjects", nargs="*", default=["many", "recommender"])
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    torch.set_num_threads(1)
    record: dict[str, dict[str, dict[str, float]]] = {}
    with torch.no_grad():
        for name in options.subjects:
            calls, between = parts_of(name)
            gc.collect()
            gc.disable()
            record[name] = medians(calls, between)
            gc.enable()
    rows = [
        (f"{name}, {manner}", *(f"{us:.1f}" for us in parts.values()))
        for name, manners in record.items()
        for manner, parts in manners.items()
    ]
    titles = ("us a call", "wir.jit", "table", "its tests", "the program")
    show("wir.jit", titles, rows, record, as_json=options.json)


if __name__ == "__main__":
    main()
