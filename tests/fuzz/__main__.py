"""``python -m tests.fuzz``: makes programs up and runs each in every way there is.

A program that is run differently somewhere is written to a folder, with its inputs and a script
that shows the difference again; with ``--reduce`` it is made as small as it can be first. With
``--log`` a run goes on where the log's last one ended, and ``--lines`` counts what was run before.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import torch

from tests.fuzz import kernels
from tests.fuzz.failures import report
from tests.fuzz.log import Log
from tests.fuzz.session import Session
from wrapper_ir.toolchain.cache import DiskCache

TARGETS = ("python", "fx", "cpp")


def main() -> int:
    options = _options()
    torch.set_num_threads(1)
    kernels.warm()
    with tempfile.TemporaryDirectory(prefix="wir-fuzz-") as folder:
        cache = DiskCache(options.cache or Path(folder))
        session = Session(options.ways.split(","), cache)
        log = Log(options.log)
        seed, failures = _run(session, options, log)
    print(f"seeds {log.after(options.seed)} to {seed - 1}, {_summary(session, failures)}")
    for way, count in session.tally.lines.items():
        print(f"  {way:24} {count:>9} lines")
    for what, seconds in session.tally.took.items():
        rate = session.tally.lines.get(what) or session.tally.lines["made"]
        print(f"  {what:24} {seconds:9.1f} s {rate / max(seconds, 1e-9):9.0f} lines/s")
    print(session.tally.reached.table())
    return 1 if failures else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="of the first program")
    parser.add_argument("--lines", type=int, default=10**12, help="how many at least")
    parser.add_argument("--seconds", type=float, default=10**9, help="how long at most, or so")
    parser.add_argument("--ways", default=",".join(TARGETS), help="which emitters")
    parser.add_argument("--chunk", type=int, default=3000, help="lines of one C++ library")
    parser.add_argument("--reduce", action="store_true", help="make failing programs small")
    parser.add_argument("--log", type=Path, help="a file that adds up what runs have done")
    parser.add_argument("--cache", type=Path, help="where to keep what g++ made, for the next run")
    parser.add_argument("-o", "--output", type=Path, default=Path("fuzz_failures"))
    return parser.parse_args()


def _run(session: Session, options: argparse.Namespace, log: Log) -> tuple[int, int]:
    """Runs chunk after chunk.

    Returns:
        The seed that comes next, and the number of failures.
    """
    begin = shown = time.monotonic()
    failures, seed = 0, log.after(options.seed)
    while log.lines + session.tally.lines["made"] < options.lines:
        cases = session.chunk(seed, options.chunk)
        for case in cases:
            if case.failure:
                failures += 1
                folder = report(case, options.output, small=options.reduce)
                words = case.failure.splitlines()[0][:300]
                print(f"seed {case.seed}: {words}\n  see {folder}", flush=True)
        log.add(cases, options.ways)
        seed += len(cases)
        now = time.monotonic()
        if now - shown > 10:
            shown = now
            told = f"{_summary(session, failures)}, {now - begin:.0f} s"
            print(told, file=sys.stderr, flush=True)
        if now - begin > options.seconds:
            break
    return seed, failures


def _summary(session: Session, failures: int) -> str:
    tally = session.tally
    return f"{tally.programs} programs, {tally.lines['made']} lines, {failures} failures"


if __name__ == "__main__":
    sys.exit(main())
