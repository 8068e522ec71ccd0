"""Measure what proofs cost: the contract, the verifier and ``wir.validate``, against compiling.

    python -m benchmarks.validation
    python -m benchmarks.validation --json

Each model of the differential tests is compiled by stock Inductor in a process of its own with
empty caches; then, in the same process, its programs come from ``wir.record()`` and each proof runs
``--rounds`` times. The table shows medians: the time of compiling, and each proof's share of it.
``rules`` is the time of ``wir.verify``. Time is that of the process, without the C++ compiler's.
The last rows are programs of 1,000 to 100,000 lines, made of a graph op by op, and show
microseconds a line: proofs are linear.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

#: Models of the differential tests, and whether forward and backward are compiled.
MODELS = (("mlp", False), ("mlp", True), ("conv_net", True), ("encoder", True), ("gpt2", True))

#: The largest shares of the time of compiling.
BOUNDS = {"contract": 0.005, "validate": 0.15}

LINES = (1_000, 10_000, 100_000)

#: Microseconds of ``validate`` for each line of a long program.
LONG = 100


def main() -> int:
    """Measure, print, and return 1 if a bound is exceeded."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.validation")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--model", help=argparse.SUPPRESS)
    parser.add_argument("--training", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.model:
        print(json.dumps(measure(options.model, options.rounds, training=options.training)))
        return 0
    rows = {_name(*each): _apart(*each, options.rounds) for each in MODELS}
    lines = {str(count): long_program(count) for count in LINES}
    exceeded = [
        f"{name}: {what} takes {row[what] / row['compile']:.3f} of compiling, more than {bound}"
        for name, row in rows.items()
        for what, bound in BOUNDS.items()
        if row[what] > bound * row["compile"]
    ]
    exceeded += [
        f"{count} lines: validate takes {row['validate']:.1f} s, more than {LONG} us a line"
        for count, row in lines.items()
        if row["validate"] > LONG * 1e-6 * int(count)
    ]
    if options.json:
        print(json.dumps({"models": rows, "lines": lines, "exceeded": exceeded}, indent=2))
    else:
        _show(rows, lines)
        print("\n".join(exceeded) or "within the bounds")
    return int(bool(exceeded))


def _show(rows: dict[str, dict[str, float]], lines: dict[str, dict[str, float]]) -> None:
    print("| model | compiling, s | lines | contract | rules | validate |")
    print("|---|---|---|---|---|---|")
    for name, row in rows.items():
        shares = (f"{row[what] / row['compile']:.2%}" for what in ("contract", "rules", "validate"))
        print(f"| {name} | {row['compile']:.1f} | {row['lines']:.0f} | {' | '.join(shares)} |")
    print("\n| lines | rules, us a line | validate, us a line | validate, s |")
    print("|---|---|---|---|")
    for count, row in lines.items():
        each = (f"{row[what] / int(count) * 1e6:.0f}" for what in ("rules", "validate"))
        print(f"| {int(count):,} | {' | '.join(each)} | {row['validate']:.2f} |")


def _name(model: str, training: bool) -> str:
    return f"{model}, {'training' if training else 'inference'}"


def _apart(model: str, training: bool, rounds: int) -> dict[str, float]:
    """Measure one model in a process of its own, with empty caches."""
    words = [sys.executable, "-m", "benchmarks.validation", "--model", model]
    words += [f"--rounds={rounds}", *(["--training"] if training else [])]
    with tempfile.TemporaryDirectory() as empty:
        names = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "WRAPPER_IR_CACHE_DIR")
        caches = {name: f"{empty}/{name}" for name in names}
        env = {**os.environ, **caches}
        done = subprocess.run(words, env=env, stdout=subprocess.PIPE, check=True, text=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def measure(model: str, rounds: int, *, training: bool) -> dict[str, float]:
    """Return seconds: those of compiling, and those of each proof of all its programs."""
    import torch

    import wrapper_ir as wir
    from tests.models.zoo import CASES
    from wrapper_ir.frontends.inductor.contract import contract_of
    from wrapper_ir.verify.contract import breaches

    case = next(each for each in CASES if each.name == model)
    net, args = case.make()
    net.train(training)

    def step(backend: str) -> None:
        torch.compiler.reset()
        with torch.set_grad_enabled(training):
            result = torch.compile(net, backend=backend)(*args)
            if training:
                _leaves_sum(result).backward()

    torch.compile(torch.neg)(torch.ones(1))  # what a process and a machine pay once
    compiling = timed(lambda: step("inductor"))
    with wir.record() as programs:
        step("wrapper_ir")
    pairs = list(zip(programs, programs.graphs, strict=True))

    def contract() -> None:
        for program, graph in pairs:
            found = contract_of(graph.graph)
            if len(found.inputs) == len(program.inputs):
                breaches(program, found)

    proofs: dict[str, Callable[[], Any]] = {
        "contract": contract,
        "rules": lambda: [wir.verify(program.replace()) for program, _ in pairs],
        "validate": lambda: [wir.validate(*each) for each in pairs],
    }
    found = {"compile": compiling, "lines": float(sum(len(p.body) for p, _ in pairs))}
    for name, proof in proofs.items():
        found[name] = statistics.median(timed(proof) for _ in range(rounds))
    return found


def _leaves_sum(result: Any) -> Any:  # noqa: ANN401 - what a model returns
    import torch
    from torch.utils._pytree import tree_leaves

    leaves = [x for x in tree_leaves(result) if getattr(x, "requires_grad", False)]
    return torch.stack([x.sum() for x in leaves]).sum()


def long_program(count: int) -> dict[str, float]:
    """Return the seconds of proofs of a program of so many calls."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    import wrapper_ir as wir

    graph = torch.fx.Graph()
    node = graph.placeholder("x")
    with FakeTensorMode():
        node.meta["val"] = value = torch.empty(8)
    ops = (torch.ops.aten.relu.default, torch.ops.aten.neg.default)
    for number in range(count):
        node = graph.call_function(ops[number % 2], (node,))
        node.meta["val"] = value
    graph.output((node,))
    module = torch.fx.GraphModule(torch.nn.Module(), graph)
    program = wir.from_fx(module)
    assert not wir.validate(program, module).not_shown
    rules = timed(lambda: wir.verify(program.replace()))
    return {"rules": rules, "validate": timed(lambda: wir.validate(program, module))}


def timed(call: Callable[[], Any]) -> float:
    """Return how long a call takes, in seconds of processor time."""
    start = time.process_time()
    call()
    return time.process_time() - start


if __name__ == "__main__":
    sys.exit(main())
