"""``python -m tests.fuzz.mutation``: how much of what breaks good programs the verifier finds.

Good programs are changed in one place. What the verifier has no objection to is run by the
interpreter, twice, over memory that holds different bytes; so every survivor gets a verdict.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections import Counter
from typing import TYPE_CHECKING, Any

import torch

import wrapper_ir as wir
from tests.fuzz import kernels
from tests.fuzz.compare import PLANS, Outcome, Run, compare, planned, run
from tests.fuzz.maker import Made, make
from tests.fuzz.mutants import mutants

if TYPE_CHECKING:
    from wrapper_ir.lines import Program

CAUGHT = "verifier"

#: What the verifier knows all about: names, lifetimes, whose storage is whose, places in memory.
HARM = {
    "WIR2401": "a name that is not defined",
    "WIR2402": "used after its end",
    "WIR2403": "ended by who does not own it",
    "WIR2404": "never ended",
    "WIR2405": "outside of its storage",
}

#: Verdicts on survivors, with the reason why the verifier cannot know.
SURVIVORS = {
    "same": "does the same: the line made no difference",
    "other": "another good program: it computes something else, the same in each run",
    "unwritten": "reads what nothing has written: what kernels leave unwritten is not stated",
    "WIR2406": "a kernel writes elements that it is not given: how far it goes is its own affair",
    "WIR2407": "a kernel writes beyond a buffer: how far it goes is its own affair",
    "WIR2408": "an op returns another layout than stated: only torch knows which",
    "WIR2409": "a number is outside of its range: the data say so",
    "WIR2410": "an op refuses its arguments, in every way to run it",
    "input": "the inputs are no longer those that the program asks for",
    "assertion": "an assertion of the program fails, as it should",
}

#: The same verdict under codes of the runtime's.
_RUNTIME = dict.fromkeys(("WIR2151", "WIR2152", "WIR2153"), "input")
_RUNTIME["WIR2156"] = "WIR2408"


def survey(seeds: range) -> Counter[tuple[str, str]]:
    """What became of the mutants of some programs: kind of change and verdict."""
    seen: Counter[tuple[str, str]] = Counter()
    for seed in seeds:
        made = make(seed)
        program = planned(made.program, [*PLANS][seed % len(PLANS)])
        seen["none", "false alarm" if wir.diagnose(program) else "no objection"] += 1
        expected = _run(program, made)
        for kind, mutant in mutants(program, seed):
            verdict = CAUGHT if wir.diagnose(mutant) else _verdict(mutant, made, expected)
            seen[kind, verdict] += 1
    return seen


def _verdict(mutant: Program, made: Made, expected: list[Outcome]) -> str:
    found = _run(mutant, made)
    errors = [outcome.error for outcome in found if outcome.error]
    if errors:
        code = errors[0].partition(": ")[2][:7]
        return _RUNTIME.get(code, code)
    if _differ(mutant, found, _run(mutant, made, unwritten=b"\0\0")):
        return "unwritten"
    return "other" if _differ(mutant, found, expected) else "same"


def _differ(program: Program, one: list[Outcome], other: list[Outcome]) -> bool:
    return bool(compare(program, one, other))


def _run(program: Program, made: Made, **options: Any) -> list[Outcome]:
    def interpreted(program: Program) -> Run:
        return lambda *inputs: wir.interpret(program, *inputs, verify=False, **options)

    return run(program, interpreted, made.inputs())


def missed(seen: Counter[tuple[str, str]]) -> dict[tuple[str, str], int]:
    """False alarms, harm that was not caught, and verdicts that nobody has explained."""
    good = {CAUGHT, "no objection", *SURVIVORS}
    return {key: count for key, count in seen.items() if key[1] not in good}


def table(seen: Counter[tuple[str, str]]) -> str:
    """A row for each verdict, a column for each kind of change."""
    kinds = sorted({kind for kind, _ in seen} - {"none"})
    rows = [f"{'':12}" + "".join(f"{kind:>11}" for kind in kinds)]
    for verdict in sorted({verdict for kind, verdict in seen if kind != "none"}):
        counts = "".join(f"{seen[kind, verdict] or '':>11}" for kind in kinds)
        why = {**SURVIVORS, **HARM}.get(verdict, "")
        rows.append(f"{verdict:12}{counts}  {why}".rstrip())
    return "\n".join(rows)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.mutation", description=__doc__)
    parser.add_argument("--programs", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    kernels.warm()
    seen = survey(range(options.seed, options.seed + options.programs))
    print(f"{options.programs} programs, {seen['none', 'false alarm']} false alarms")
    print(table(seen))
    bad = missed(seen)
    print(f"missed: {bad or 'nothing'}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
