"""Puts faults into programs of whole models, and tells who finds them.

    python -m tests.seeded [--models GLOB,...] [--most N] [--streams N] [--seed N]

A call is left out, two calls change places, a result is other memory, a call reads an older value,
memory ends a line too early; in made-up programs with streams, a wait or an event is left out. The
status is 1 if less than 99 in 100 harmful faults are found, or if something is said of a program
without a fault.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from fnmatch import fnmatchcase

import torch

from tests.models.zoo import CASES
from tests.seeded.survey import FINDERS, Survey, survey, survey_streams


def main() -> int:
    """Try what is asked for, and say what came out."""
    parser = argparse.ArgumentParser(prog="python -m tests.seeded")
    parser.add_argument("--models", default="*", help="globs of names of models (*)")
    parser.add_argument("--most", type=int, default=6, help="faults of a kind in a program (6)")
    parser.add_argument("--streams", type=int, default=12, help="programs with streams (12)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--verbose", action="store_true", help="list what is missed, and noise")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    globs = options.models.split(",")
    names = [c.name for c in CASES if any(fnmatchcase(c.name, each) for each in globs)]
    found = Survey()
    for name in names:
        start = time.perf_counter()
        survey([name], options.most, options.seed, found)
        print(f"{name}: {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
    survey_streams(options.streams, found)
    print(found.table())
    shares = {"without a run": found.share(*FINDERS[:-1]), "with a run": found.share(*FINDERS)}
    print(", ".join(f"{share:.2%} found {how}" for how, share in shares.items()))
    quiet = sum(n for (_, who), n in found.harmless.items() if who == "quiet")
    print(f"harmless: {found.harmless.total()}, of which {quiet} are passed")
    hidden = found.not_shown.total()
    print(f"not shown: {hidden} of {found.lines} lines and results ({hidden / found.lines:.2%})")
    for why, count in found.not_shown.most_common():
        print(f"  {count:5} {why}")
    print(f"said of programs without a fault: {found.alarms or 'nothing'}")
    if options.verbose:
        print(
            "\n".join(
                [
                    "missed:",
                    *found.missed,
                    "found by a run alone:",
                    *found.only_run,
                    "noise:",
                    *found.noise,
                ]
            )
        )
    return int(found.share(*FINDERS) < 0.99 or bool(found.alarms))


if __name__ == "__main__":
    sys.exit(main())
