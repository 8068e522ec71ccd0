"""Measure memory and time per call at realistic sizes: our planning modes against Inductor.

    python -m benchmarks.memory                             # all models, about eight minutes
    python -m benchmarks.memory --models unet bert --json   # some models, as JSON
    python -m benchmarks.memory --rounds 15                 # narrower quartiles
    python -m benchmarks.memory --quick            # small batches: a smoke test
    python -m benchmarks.memory --list             # every way of running a model

Each way of running a model has its own process, because memory freed by one would serve the next.
A process first reports its memory. Then all processes take turns at a few calls each, and ratios to
stock Inductor are taken within a round, so a machine that is slow for a while slows them all. The
clock is wall time, because page faults are time spent in the kernel.

*peak* is the highest growth of resident memory during three calls, *held* the growth that remains
once their results are dropped, both in MiB. *faults* is minor page faults per call.

*malloc keeps* is stock Inductor with a C library set to keep freed memory, which avoids page faults
of all kinds. Its ratio is the *ceiling*: the most to be gained on this machine in this run. The
bounds are the ceilings of the machine where they were first measured. A missed bound is shown with
the ceiling: if that is above the bound, keeping memory cannot reach the bound on this machine.

Progress goes to stderr; each model's table is printed when the model is done.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

STOCK = "inductor"
CEILING = "inductor, malloc keeps"

#: Number of processes started at once: each compiles on more than one core and takes memory.
STARTING = 2


@dataclass(frozen=True)
class Way:
    """One way of running a model.

    Attributes:
        backend: The backend of torch.compile.
        options: Options of the backend.
        environment: Environment variables of the process.
        out: Whether results go into tensors that the caller provides.
        keep_freed: Whether ``wir.keep_malloc_memory()`` is called first.
        usual: Whether it runs when no way is named.
    """

    backend: str
    options: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    out: bool = False
    keep_freed: bool = False
    usual: bool = True


def _ours(emitter: str, **options: object) -> dict[str, Any]:
    return {"backend": "wrapper_ir", "options": {"emitter": emitter, **options}}


_NEVER_GIVEN_BACK = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 40)}

#: Ways by name; the first is the baseline.
WAYS: dict[str, Way] = {
    STOCK: Way(STOCK),
    "inductor, pools": Way(STOCK, {"memory_planning": True}),
    CEILING: Way(STOCK, environment=_NEVER_GIVEN_BACK),
    "python, call": Way(**_ours("python")),
    "python, kept": Way(**_ours("python", arena="kept")),
    "python, kept, out": Way(**_ours("python", arena="kept"), out=True),
    "cpp, call": Way(**_ours("cpp")),
    "cpp, kept": Way(**_ours("cpp", arena="kept")),
    "cpp, kept, out": Way(**_ours("cpp", arena="kept"), out=True),
    "python, kept, freed": Way(**_ours("python", arena="kept"), keep_freed=True, usual=False),
    "cpp, kept, freed": Way(**_ours("cpp", arena="kept"), keep_freed=True, usual=False),
    "python, call, pools": Way(**_ours("python", strategy="pool"), usual=False),
    "cpp, call, pools": Way(**_ours("cpp", strategy="pool"), usual=False),
    "python, call, freed": Way(**_ours("python"), keep_freed=True, usual=False),
    "inductor, freed": Way(STOCK, keep_freed=True, usual=False),
    "inductor, pools combined": Way(
        STOCK, {"memory_planning": True, "memory_pool": "combined"}, usual=False
    ),
    "inductor, cpp": Way(STOCK, {"cpp_wrapper": True}, usual=False),
    "inductor, huge pages": Way(STOCK, environment={"THP_MEM_ALLOC_ENABLE": "1"}, usual=False),
}

#: The largest time ratio to stock Inductor allowed, by model.
BOUNDS = {"unet": 0.73, "bert": 0.93, "gpt2": 0.93}

MODELS = ("bert", "gpt2", "vit", "resnet", "unet")


class Child:
    """A process that runs a model in one way."""

    def __init__(self, model: str, name: str, options: argparse.Namespace) -> None:
        self._name = f"{model}, {name}"
        way = WAYS[name]
        given = {
            "model": model,
            "backend": way.backend,
            "options": way.options,
            "out": way.out,
            "keep_freed": way.keep_freed,
            "threads": options.threads,
            "quick": options.quick,
        }
        environment = {**os.environ, "OMP_NUM_THREADS": str(options.threads), **way.environment}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.memory_call", json.dumps(given)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        self.memory = self._answer()

    def calls(self, count: int) -> dict[str, float]:
        """Make the process run ``count`` calls; return its measurements."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"calls": count}) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, float]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the process for {self._name} ended with {self._process.wait()}")
        found: dict[str, float] = json.loads(line)
        return found

    def end(self) -> None:
        """End the process."""
        self._process.communicate()


def tell(text: str) -> None:
    """Print progress to stderr."""
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def started(model: str, options: argparse.Namespace) -> dict[str, Child]:
    """Start a process for every requested way, a few at once, and wait for their memory figures."""

    def start(name: str) -> Child:
        begun = time.monotonic()
        child = Child(model, name, options)
        tell(f"{model}: {name} is ready, {time.monotonic() - begun:.0f} s")
        return child

    with ThreadPoolExecutor(STARTING) as pool:
        coming = {name: pool.submit(start, name) for name in options.ways}
    children = {name: one.result() for name, one in coming.items() if one.exception() is None}
    failed = [error for one in coming.values() if (error := one.exception()) is not None]
    if failed:
        end(children)
        raise failed[0]
    return children


def end(children: dict[str, Child]) -> None:
    """End all processes."""
    for child in children.values():
        child.end()


def measure(model: str, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Run a model in every requested way; return a record for each."""
    children = started(model, options)
    rounds: dict[str, list[dict[str, float]]] = {name: [] for name in children}
    try:
        for child in children.values():  # idle since their start
            child.calls(1)
        for number in range(options.rounds):
            names = list(children) if number % 2 == 0 else list(reversed(children))
            for name in names:
                rounds[name].append(children[name].calls(1))
            tell(f"{model}: round {number + 1} of {options.rounds}")
    finally:
        end(children)
    return [record(model, name, children[name].memory, rounds) for name in children]


def record(
    model: str, name: str, memory: dict[str, float], rounds: dict[str, list[dict[str, float]]]
) -> dict[str, Any]:
    """Return one row of the table as a record."""
    ratios = ratios_of(name, rounds)
    seconds = [found["seconds"] for found in rounds[name]]
    low, _, high = statistics.quantiles(ratios, n=4)
    return {
        "model": model,
        "way": name,
        "peak_mib": memory["peak"] / 2**20,
        "held_mib": memory["held"] / 2**20,
        "faults": statistics.median(found["faults"] for found in rounds[name]),
        "ms": statistics.median(seconds) * 1e3,
        "ratio": statistics.median(ratios),
        "quartiles": (low, high),
        "ceiling": statistics.median(ratios_of(CEILING, rounds)) if CEILING in rounds else None,
        "bound": BOUNDS.get(model) if "kept" in name else None,
    }


def ratios_of(name: str, rounds: dict[str, list[dict[str, float]]]) -> list[float]:
    """Return a way's times relative to the first way, round by round."""
    first = next(iter(rounds.values()))
    pairs = zip(first, rounds[name], strict=True)
    return [ours["seconds"] / stock["seconds"] for stock, ours in pairs]


COLUMNS = ("model", "way", "peak", "held", "faults", "ms", "ratio", "quartiles", "bound", "kept")


def row(found: dict[str, Any]) -> tuple[str, ...]:
    """Format one record."""
    from benchmarks.common import verdict

    low, high = found["quartiles"]
    bound, ceiling = found["bound"], found["ceiling"]
    kept = verdict(found["ratio"], bound)
    if bound is not None and ceiling is not None and found["ratio"] > bound:
        kept += f" (ceiling {ceiling:.2f})"
    return (
        found["model"],
        found["way"],
        f"{found['peak_mib']:,.0f}",
        f"{found['held_mib']:,.0f}",
        f"{found['faults']:,.0f}",
        f"{found['ms']:.0f}",
        f"{found['ratio']:.2f}",
        f"{low:.2f} .. {high:.2f}",
        "-" if bound is None else f"{bound:.2f}",
        kept,
    )


def main() -> None:
    """Run the requested models."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"of {MODELS}; default: all")
    usual = [name for name, way in WAYS.items() if way.usual]
    parser.add_argument("--models", nargs="+", dest="more", metavar="MODEL", default=[])
    parser.add_argument("--ways", nargs="+", metavar="WAY", default=usual, choices=list(WAYS))
    parser.add_argument("--rounds", type=int, default=7, help="turns that each way gets")
    parser.add_argument("--threads", type=int, default=2, help="of OpenMP")
    parser.add_argument("--quick", action="store_true", help="one example a batch, three rounds")
    parser.add_argument("--list", action="store_true", help="print the ways and stop")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    if options.list:
        print(
            "\n".join(
                f"{name}{'' if way.usual else '  (when named)'}" for name, way in WAYS.items()
            )
        )
        return
    if options.quick:
        options.rounds = min(options.rounds, 3)
    from benchmarks.common import machine, show

    found: list[dict[str, Any]] = []
    for model in [*options.models, *options.more] or MODELS:
        records = measure(model, options)
        found += records
        title = f"Memory and time of a call, {model}, {options.threads} threads"
        if not options.json:
            show(title, COLUMNS, map(row, records), None, as_json=False)
    if options.json:
        about = {**machine(), "threads": options.threads, "rounds": options.rounds}
        show("", (), (), {"machine": about, "found": found}, as_json=True)


if __name__ == "__main__":
    main()
