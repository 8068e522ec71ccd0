"""Measure compile time against stock Inductor: with a cold kernel cache, and in a second process.

    python benchmarks/compile_time.py            # three rounds, sides alternating
    python benchmarks/compile_time.py --json

Every compilation runs in a fresh process. The clock runs from the end of ``import torch`` until the
first result (in training, the first gradients), so imports that a side does lazily count. A round
gives each side an empty cache directory and runs these steps in it, one after the other:

    first    a model of one line. It pays the one-time costs of a machine: stock's instruction-set
             probes and precompiled header, and their equivalents on our side. Both sides pay them
             here and nowhere else.
    cold     each model, its kernels never compiled before
    warm     each model again, in a second process

The two sides alternate in going first. Ratios are taken within a round; the median is shown.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

STOCK = "inductor"
OURS = "wrapper_ir"

#: The largest ratios allowed.
BOUNDS = {"first": None, "cold": 1.1, "warm": 1.2}

#: Models of the differential tests, and whether a training step or only the forward is compiled.
SUBJECTS = (("mlp", False), ("encoder", True), ("conv_net", True))


def compile_here(backend: str, name: str, training: bool) -> float:
    """Compile a model in this process; return the time in seconds."""
    import torch

    from tests.models.harness import loss
    from tests.models.zoo import CASES

    if name == "first":
        model: Any = torch.nn.Softplus()
        args: tuple[Any, ...] = (torch.randn(33),)
    else:
        model, args = next(case for case in CASES if case.name == name).make()
        model.train(training)
    start = time.perf_counter()
    compiled = torch.compile(model, backend=backend)
    if training:
        loss(compiled(*args)).backward()
    else:
        with torch.no_grad():
            compiled(*args)
    return time.perf_counter() - start


def compile_apart(backend: str, name: str, training: bool, caches: Path) -> float:
    """Compile a model in a fresh process with the given caches.

    Raises:
        SystemExit: The compilation failed; its own message has been shown.
    """
    environment = {
        **os.environ,
        "TORCHINDUCTOR_CACHE_DIR": str(caches / "inductor"),
        "WRAPPER_IR_CACHE_DIR": str(caches / "wrapper_ir"),
    }
    # An installed package comes with bytecode, as torch does here; our first process writes ours.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-m", "benchmarks.compile_time", "--here", backend, name]
    command += ["--training"] if training else []
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.returncode)
    return float(done.stdout.split()[-1])


def run_side(backend: str) -> dict[str, float]:
    """Run one side of a round; return seconds by step and model."""
    with tempfile.TemporaryDirectory(prefix="wrapper_ir-compile-time-") as root:
        caches = Path(root)
        found = {"first": compile_apart(backend, "first", False, caches)}
        for state in ("cold", "warm"):
            for name, training in SUBJECTS:
                seconds = compile_apart(backend, name, training, caches)
                found[f"{state} {name}"] = seconds
    return found


def summarise(rounds: Sequence[dict[str, dict[str, float]]]) -> list[dict[str, Any]]:
    """Return a record for each step and model."""
    result = []
    for what in rounds[0][STOCK]:
        stock = [one[STOCK][what] for one in rounds]
        ours = [one[OURS][what] for one in rounds]
        ratios = [b / a for a, b in zip(stock, ours, strict=True)]
        result.append(
            {
                "what": what,
                "stock_s": statistics.median(stock),
                "ours_s": statistics.median(ours),
                "ratio": statistics.median(ratios),
                "ratios": ratios,
                "bound": BOUNDS[what.split()[0]],
            }
        )
    return result


def row(found: dict[str, Any]) -> tuple[str, ...]:
    """Format one record."""
    from benchmarks.common import verdict

    bound = found["bound"]
    return (
        found["what"],
        f"{found['stock_s']:.2f}",
        f"{found['ours_s']:.2f}",
        f"{found['ratio']:.2f}",
        f"{min(found['ratios']):.2f} .. {max(found['ratios']):.2f}",
        "-" if bound is None else f"{bound:.1f}",
        verdict(found["ratio"], bound),
    )


def main() -> None:
    """Run the rounds, or one compilation in a child process."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--control", action="store_true", help="stock on both sides")
    parser.add_argument(
        "--here", nargs=2, metavar=("BACKEND", "MODEL"), help="one, in this process"
    )
    parser.add_argument("--training", action="store_true", help="with --here: a training step")
    options = parser.parse_args()
    if options.here:
        backend, name = options.here
        print(compile_here(backend, name, options.training))
        return
    sides = {STOCK: STOCK, OURS: STOCK if options.control else OURS}
    rounds = []
    for number in range(options.rounds):
        order = list(sides) if number % 2 == 0 else list(reversed(sides))
        rounds.append({side: run_side(sides[side]) for side in order})
    from benchmarks.common import machine, show

    found = summarise(rounds)
    columns = ("compiled", "stock s", "ours s", "ratio", "rounds", "bound", "kept")
    record = {"machine": machine(), "rounds": rounds, "summary": found}
    show("Compile time", columns, map(row, found), record, as_json=options.json)


if __name__ == "__main__":
    main()
