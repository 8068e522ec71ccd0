"""``python -m tests.fuzz``: makes programs up and runs each in every way there is.

What differs is reduced and written to a folder: the program, its inputs, and a script that shows
the difference again.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import torch

from tests.fuzz import kernels
from tests.fuzz.compare import FAST, SLOW, difference
from tests.fuzz.maker import make
from wrapper_ir.debugging import reduce
from wrapper_ir.lines import BufferInput, Program

_SCRIPT = '''\
"""Seed {seed}: {words}"""

import torch

import wrapper_ir as wir
from tests.fuzz import kernels
from tests.fuzz.compare import difference

program = wir.load("program.wir")
inputs = torch.load("inputs.pt", weights_only=True)
print(difference(program, inputs, {ways!r}) or "no difference")
'''


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="of the first program")
    parser.add_argument("--programs", type=int, default=10**9, help="how many at most")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long at most")
    parser.add_argument("--cpp", type=int, default=50, help="every how many also in C++; 0: none")
    parser.add_argument("-o", "--output", type=Path, default=Path("fuzz_failures"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    kernels.warm()
    begin, lines, count, failures = time.monotonic(), 0, 0, 0
    shown = begin
    while count < options.programs and time.monotonic() - begin < options.seconds:
        seed = options.seed + count
        count += 1
        made = make(seed)
        lines += len(made.program.body)
        with_cpp = options.cpp and seed % options.cpp == 0
        ways = [*FAST, *SLOW] if with_cpp else [*FAST]
        words = difference(made.program, made.inputs(), ways)
        if words:
            failures += 1
            folder = report(made.program, made.inputs(), seed, words, options.output)
            print(f"seed {seed}: {words.splitlines()[0]}\n  see {folder}", flush=True)
        if time.monotonic() - shown > 10:
            shown = time.monotonic()
            told = f"{count} programs, {lines} lines, {failures} failures"
            print(f"{told}, {shown - begin:.0f} s", file=sys.stderr, flush=True)
    took = time.monotonic() - begin
    print(f"{count} programs of {lines} lines, {failures} failures, in {took:.0f} s")
    return 1 if failures else 0


def report(program: Program, inputs: list[Any], seed: int, words: str, root: Path) -> Path:
    """Reduces a failing program and writes what shows the failure again."""
    names = [_name(item) for item in program.inputs]
    values = dict(zip(names, inputs, strict=True))
    way = words.partition(":")[0]
    ways = [way] if way in {**FAST, **SLOW} else []
    kind = _kind(words)

    def fails(candidate: Program) -> bool:
        given = [values[_name(item)] for item in candidate.inputs]
        return _kind(difference(candidate, given, ways)) == kind

    small = program if way == "verifier" else reduce(program, fails)
    folder = root / f"seed_{seed}"
    folder.mkdir(parents=True, exist_ok=True)
    small.save(folder / "program.wir")
    torch.save([values[_name(item)] for item in small.inputs], folder / "inputs.pt")
    text = _SCRIPT.format(seed=seed, words=words.replace('"""', "'''"), ways=ways)
    (folder / "show.py").write_text(text, encoding="utf-8")
    return folder


def _kind(words: str) -> str:
    """What stays the same of a failure while its program gets smaller: way and error."""
    return ":".join(words.split(":")[:2]).partition("[")[0]


def _name(item: Any) -> str:
    return item.name if isinstance(item, BufferInput) else str(item.symbol)


if __name__ == "__main__":
    sys.exit(main())
