"""Changes something between calls of a compiled model, and compares each call with eager's.

    python -m tests.changes [--count N] [--seed N] [--emitter NAME] [--model GLOB] [--door NAME]
                            [--device NAME] [--cuda-graph]

For each thing that a guard, a wrapper or a check looks at, a change has to end in the values that
eager gives or in an error: never in others. Compared are results, what they say of gradients,
arguments and buffers afterwards, and the gradients of all leaves. What shares storage is not:
Inductor returns ``x`` for ``x * 1``. The status is 1 where anything differs.
"""

from __future__ import annotations

import argparse
import random
import sys
from fnmatch import fnmatchcase

import torch

from tests.changes.models import MODELS
from tests.changes.state import Trial


def main() -> int:
    """Try what is asked for, and say what came out."""
    parser = argparse.ArgumentParser(prog="python -m tests.changes")
    parser.add_argument("--count", type=int, default=1000, help="changes in all (1000)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--emitter", default="python", help="emitter (python)")
    parser.add_argument("--door", default="compile", choices=("compile", "jit"))
    parser.add_argument("--model", default="*", help="glob of names of models (*)")
    parser.add_argument("--device", default="cpu", help="where tensors are (cpu)")
    parser.add_argument("--cuda-graph", action="store_true", help="capture and replay calls")
    options = parser.parse_args()
    names = [name for name in MODELS if fnmatchcase(name, options.model)]
    torch._dynamo.config.recompile_limit = 10_000
    torch._dynamo.config.accumulated_recompile_limit = 10_000
    counts: dict[str, int] = {}
    for number, name in enumerate(names):
        share = options.count // len(names) + (number < options.count % len(names))
        source = random.Random(f"{options.seed} {name}")
        ours = (options.emitter, options.door, options.device, options.cuda_graph)
        trial = Trial(name, source, *ours)
        for verdict in trial.run(share):
            counts[verdict.kind] = counts.get(verdict.kind, 0) + 1
            if verdict.kind != "same":
                print(f"{name}: {verdict.kind}: {verdict.text}", flush=True)
        torch._dynamo.reset()
    print(", ".join(f"{count} {kind}" for kind, count in sorted(counts.items())))
    return int("different" in counts)


if __name__ == "__main__":
    sys.exit(main())
