"""Compare torch's own op samples with stock Inductor, in the same process, bit by bit.

Every op of torch's ``op_db`` runs under ``torch.compile(backend="wrapper_ir")`` and under stock
Inductor. Results with their layouts, arguments and the random generator's state must match, and
every graph that Inductor lowered must have become a program of ours. ``--backward`` adds gradients
and backward graphs; ``--modules`` tries torch's modules instead of ops. Several ops share a graph;
if anything fails, the graph is halved until the op is found. Verdicts are kept in a file, and the
next run continues from there.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import deque
from itertools import zip_longest
from pathlib import Path

from tools.opinfo import exported
from tools.opinfo.database import UNINITIALISED, module_names, op_names
from tools.opinfo.mode import Mode
from tools.opinfo.pool import Pool, Request
from tools.opinfo.table import Findings, section, write, written

EMITTERS = ("python", "fx", "cpp", "interpreter")


DOCUMENT = Path("docs/coverage-ops.md")


def main() -> int:
    """Try ops and print the table; return 1 if anything differs from stock."""
    options = _options()
    if options.front_end == "from_fx":
        return exported.main(options.ops, options.emitter[0])
    findings = Findings(options.results)
    for path in options.merge:
        findings.merge(path)
    if not options.merge:
        _try(options, findings)
    body = section(findings, EMITTERS, written(DOCUMENT) if options.write else "")
    print("\n" + body)
    failures = findings.failures()
    print("\n".join(failures))
    if options.write:
        write(DOCUMENT, body)
    return int(bool(failures))


def _try(options: argparse.Namespace, findings: Findings) -> None:
    pending = _requests(options, findings)
    total = sum(len(request.ops) for request in pending)
    began = time.monotonic()
    done = 0

    def found(request: Request, verdicts: dict[str, dict[str, str]]) -> None:
        nonlocal done
        for op, verdict in verdicts.items():
            findings.add(request.mode.label, op, verdict)
        done += len(verdicts)
        _progress(done, total, began, f"{request.mode.label}: {request.ops[-1]}")

    until = began + options.seconds if options.seconds else float("inf")
    Pool(pending, options.jobs, until, found).run()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tools.opinfo", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--front-end", choices=("inductor", "from_fx"), default="inductor")
    parser.add_argument(
        "--emitter", action="append", choices=EMITTERS, help="may be repeated; all by default"
    )
    parser.add_argument(
        "--dtype", action="append", help="such as float32, which is the default; may be repeated"
    )
    parser.add_argument("--modules", action="store_true", help="modules of torch.nn, not ops")
    parser.add_argument("--backward", action="store_true", help="take gradients, too")
    parser.add_argument("--dynamic", action="store_true", help="let sizes be symbols")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--ops", default="*", metavar="GLOB", help="only what has such a name")
    parser.add_argument("--samples", type=int, default=2, help="of an op, at most (2)")
    parser.add_argument("--batch", type=int, default=8, help="ops in one graph (8)")
    parser.add_argument(
        "--every",
        type=int,
        default=1,
        help="try every Nth op only, of each further --dtype others",
    )
    parser.add_argument(
        "--cpp-every", type=int, default=1, help="in C++, which compiles longest, every Nth only"
    )
    parser.add_argument("--jobs", type=int, default=1, help="worker processes (1)")
    parser.add_argument(
        "--seconds", type=float, help="begin nothing new after this time, and end soon"
    )
    parser.add_argument("--results", type=Path, default=Path("build/opinfo.jsonl"))
    parser.add_argument(
        "--merge",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="try nothing, but show what such results of other runs say, too; may be repeated",
    )
    parser.add_argument("--write", action="store_true", help="put the table in its page")
    options = parser.parse_args()
    options.emitter = options.emitter or list(EMITTERS)
    options.dtype = options.dtype or ["float32"]
    return options


def _requests(options: argparse.Namespace, findings: Findings) -> deque[Request]:
    """Return the batches left to try, alternating between element types."""
    names = (module_names if options.modules else op_names)(options.ops)
    batches = []
    for number, dtype in enumerate(options.dtype):
        mode = Mode(dtype, options.modules, options.backward, options.dynamic, options.device)
        tried = names[number % options.every :: options.every]
        ways = _emitters(tried, options)
        left = [name for name in tried if findings.missing(mode.label, name, ways[name])]
        made = []
        for emitters in dict.fromkeys(ways.values()):
            alike = [name for name in left if ways[name] == emitters]
            each = _batches(alike, options.batch, UNINITIALISED | findings.amiss())
            made += [Request(ops, mode, options.samples, emitters) for ops in each]
        batches.append(made)
    turns = zip_longest(*batches)
    return deque(request for turn in turns for request in turn if request is not None)


def _emitters(names: list[str], options: argparse.Namespace) -> dict[str, tuple[str, ...]]:
    """Return the emitters that each op is tried with."""
    without = tuple(emitter for emitter in options.emitter if emitter != "cpp")
    every = tuple(options.emitter)
    return {n: without if i % options.cpp_every else every for i, n in enumerate(names)}


def _batches(names: list[str], count: int, lone: frozenset[str]) -> list[tuple[str, ...]]:
    """Return names in batches; ops that would spoil a batch go alone."""
    shared = [name for name in names if name not in lone]
    found = [tuple(shared[i : i + count]) for i in range(0, len(shared), count)]
    return found + [(name,) for name in names if name in lone]


def _progress(done: int, total: int, began: float, latest: str) -> None:
    elapsed = time.monotonic() - began
    left = elapsed / done * (total - done) if done else 0.0
    bar = "#" * (30 * done // total) if total else ""
    end = "\n" if not sys.stderr.isatty() else ""
    text = f"\r[{bar:30}] {done}/{total}  {elapsed:.0f} s, about {left:.0f} s left  {latest:40.40}"
    sys.stderr.write(text + end)
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
