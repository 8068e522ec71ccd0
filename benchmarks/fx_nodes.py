"""Measure the cost of one more node in a running graph against a line of emitted Python.

    python benchmarks/fx_nodes.py
    python benchmarks/fx_nodes.py --json

A program repeats one part (a kernel, a kernel that reads what it writes through another argument,
an allocation, a view that a kernel reads, a library op) 20 and 100 times; the cost of one is the
difference between the two call times divided by 80. The tensors hold 16 numbers, so the figures are
host time. Calls of the sides alternate in short batches on one thread with the garbage collector
off. A figure is the median over rounds, a ratio the median of the ratios within rounds. The clock
is the thread's CPU time.

``loaded`` is ``artifact.load_boxed()``, ``graph`` the graph module itself, ``interpreter``
torch.fx's interpreter on it. ``call`` is a whole call of a program with a single kernel: the fixed
cost of a side.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = "1"

import argparse
import gc
import json
import statistics
import time
from typing import TYPE_CHECKING, Any

import torch

import wrapper_ir as wir
from wrapper_ir.emitters.fx import FxArtifact

if TYPE_CHECKING:
    from collections.abc import Callable

KERNEL = """
kernel @copy(in_ptr0: in f32, out_ptr0: out f32, n: i64) cpp
  | #include <torch/csrc/inductor/cpp_prefix.h>
  | extern "C" void kernel(const float* in_ptr0, float* out_ptr0, const int64_t n)
  | {
  |     for (int64_t i = 0; i < n; ++i) out_ptr0[i] = in_ptr0[i];
  | }
  |
"""

HEAD = (
    """
wir 2
program @nodes backward planned

input %x : f32[4, 4] @cpu
"""
    + KERNEL
    + """
extern aten::mm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!)

  %y = allocate : f32[4, 4] @cpu
  %z = allocate : f32[4] @cpu
  %low = reinterpret %y : f32[12] @cpu
  %high = reinterpret %y : f32[12]+4 @cpu
"""
)

#: The repeated parts; ``{n}`` is a unique number. A backward graph keeps nothing between calls.
PARTS = {
    "kernel": "  call @copy(%x, out %y, 16)\n",
    "kernel within one memory": "  call @copy(%low, out %high, 12)\n",
    "allocation": "  %a{n} = allocate : f32[4, 4] @cpu\n  free %a{n}\n",
    "view, kernel": "  %v{n} = reinterpret %y : f32[4]+4 @cpu\n  call @copy(%v{n}, out %z, 4)\n",
    "library op": "  aten::mm.out(%x, %x, out=out %y)\n",
}


def program(part: str, count: int) -> wir.Program:
    """Return a program that repeats one part ``count`` times."""
    body = "".join(PARTS[part].format(n=n) for n in range(count))
    return wir.parse(f"{HEAD}{body}  call @copy(%x, out %y, 16)\nreturn %y, %z\n")


def sides(part: str, count: int) -> dict[str, Callable[[list[Any]], Any]]:
    """Return the program as a callable for each side."""
    made = program(part, count)
    graph = wir.emit(made, "fx")
    assert isinstance(graph, FxArtifact)
    loaded = graph.load_boxed()  # compiles the kernels before the graph itself runs
    module = graph.graph_module
    interpreter = torch.fx.Interpreter(module)
    return {
        "python": wir.emit(made, "python").load_boxed(),
        "loaded": loaded,
        "graph": lambda args: module(*args),
        "interpreter": lambda args: interpreter.run(*args),
    }


def seconds(call: Callable[[list[Any]], Any], x: torch.Tensor, repeats: int) -> float:
    """Return the time of one call."""
    begin = time.thread_time()
    for _ in range(repeats):
        call([x])
    return (time.thread_time() - begin) / repeats


def measure(part: str, rounds: int) -> dict[str, float]:
    """Return microseconds per repetition for each side, and the ratios to Python."""
    few, many = sides(part, 20), sides(part, 100)
    x = torch.randn(4, 4)
    costs: dict[str, list[float]] = {name: [] for name in few}
    for _ in range(rounds):
        for name in few:
            difference = seconds(many[name], x, 30) - seconds(few[name], x, 30)
            costs[name].append(difference / 80 * 1e6)
    row = {name: statistics.median(values) for name, values in costs.items()}
    return {**row, **_ratios(costs)}


def _ratios(costs: dict[str, list[float]]) -> dict[str, float]:
    """Return a graph's cost relative to Python, loaded and as is."""
    python = costs["python"]
    return {
        f"{side} / python": statistics.median(
            a / b for a, b in zip(costs[side], python, strict=True)
        )
        for side in ("loaded", "graph")
    }


def whole(rounds: int) -> dict[str, float]:
    """Return the microseconds of a whole call."""
    x, found = torch.randn(4, 4), sides("kernel", 0)
    costs: dict[str, list[float]] = {name: [] for name in found}
    for _ in range(rounds):
        for name, call in found.items():
            costs[name].append(seconds(call, x, 100) * 1e6)
    row = {name: statistics.median(values) for name, values in costs.items()}
    return {**row, **_ratios(costs)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    gc.disable()
    with torch.no_grad():
        found = {part: measure(part, options.rounds) for part in PARTS}
        found["call"] = whole(options.rounds)
    if options.json:
        print(json.dumps(found))
        return
    columns = list(found["call"])
    print(f"| us | {' | '.join(columns)} |")
    print("|---" * (len(columns) + 1) + "|")
    for part, row in found.items():
        print(f"| {part} | {' | '.join(f'{row[name]:.2f}' for name in columns)} |")


if __name__ == "__main__":
    main()
