"""Measure the cost of a call on a GPU: a decoder of many small kernels, ours against Inductor's.

    python benchmarks/gpu.py [--blocks N]

One process, alternating rounds, medians. It stays on one core while it measures: on hosts with
several memory nodes, calls otherwise take up to 1.5 times as long by chance. Needs a CUDA device
and Triton.
"""

from __future__ import annotations

import argparse
import copy
import itertools
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional

import wrapper_ir as wir
from wrapper_ir.runtime.cuda_graphs import captured as captured_calls

if TYPE_CHECKING:
    from collections.abc import Callable

BOUNDS = {
    "wir.compile": ("Inductor, Python", 0.85),
    "wir.compile, C++": ("Inductor, C++", 0.75),
    "wir.compile, graph": ("reduce-overhead", 0.9),
    "torch.compile, graph": ("reduce-overhead", 0.9),
    "exported, graph": ("reduce-overhead", 0.9),
}
"""The largest ratios allowed, and the Inductor mode each is relative to."""

COMPILED: dict[str, dict[str, Any]] = {
    "Inductor, Python": {"backend": "inductor"},
    "torch.compile, ours": {"backend": "wrapper_ir"},
    "Inductor, C++": {"backend": "inductor", "options": {"cpp_wrapper": True}},
    "torch.compile, ours, C++": {
        "backend": "wrapper_ir",
        "options": {"emitter": "cpp", "build": "wait"},
    },
    "reduce-overhead": {"backend": "inductor", "mode": "reduce-overhead"},
    "torch.compile, graph": {"backend": "wrapper_ir", "options": {"cuda_graph": True}},
}

WIDTH, HEADS, TOKENS = 512, 8, 16


class Block(nn.Module):
    """One block of a decoder, shaped like those of large models, at toy size."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.between = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)
        self.up = nn.Linear(WIDTH, 4 * WIDTH, bias=False)
        self.gate = nn.Linear(WIDTH, 4 * WIDTH, bias=False)
        self.down = nn.Linear(4 * WIDTH, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        batch, tokens, width = x.shape
        parts = self.qkv(self.before(x)).view(batch, tokens, 3, HEADS, width // HEADS)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, tokens, width))
        y = self.between(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))


def times(function: Callable[[Tensor], Any], x: Tensor, calls: int) -> tuple[float, float]:
    """Return median microseconds of a call and of its host part."""
    total, host = [], []
    for _ in range(calls):
        start = time.perf_counter()
        function(x)
        returned = time.perf_counter()
        torch.cuda.synchronize()
        total.append(time.perf_counter() - start)
        host.append(returned - start)
    return statistics.median(total) * 1e6, statistics.median(host) * 1e6


def kernel_time(function: Callable[[Tensor], Any], x: Tensor) -> float:
    """Return the microseconds of a call's kernels, measured by replaying its captured graph."""
    function(x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        function(x)
    found = []
    for _ in range(50):
        start = time.perf_counter()
        graph.replay()
        torch.cuda.synchronize()
        found.append(time.perf_counter() - start)
    return statistics.median(found) * 1e6


class Exported:
    """A library that captures its calls, loaded by PyTorch's runner."""

    def __init__(self, library: Path) -> None:
        self._runner = torch._C._aoti.AOTIModelContainerRunnerCuda(str(library), 1, "cuda", "")

    def __call__(self, x: Tensor) -> list[Tensor]:
        results: list[Tensor] = self._runner.run([x])
        return results


class Moving:
    """A wrapper that passes a different tensor, with the same contents, on each call."""

    def __init__(self, function: Callable[..., Any], x: Tensor) -> None:
        self.f = function
        self._turn = itertools.cycle([x.clone() for _ in range(4)])

    def __call__(self, _: Tensor) -> object:
        return self.f(next(self._turn))[0]


def parts(function: Callable[..., Any], x: Tensor) -> dict[str, float]:
    """Return the host time of each part of a replay, in microseconds."""
    graphs: Any = vars(function)["cuda_graphs"]
    graph = graphs._latest
    sources = [x for _ in graph.moving]
    return {
        "layouts": host_time(lambda: captured_calls._fits(graph, [x])),
        "addresses": host_time(
            lambda: graph.inputs.hold([x]) and graph.constants.hold(graphs._constants())
        ),
        "stream": host_time(
            lambda: (graphs._recorder.is_recording(), graphs._recorder.order(graph.places))
        ),
        "copies in": host_time(lambda: graph.copy(graph.places, sources)),
        "launch": host_time(graph.recording.replay),
        "copies out": host_time(lambda: graph.results.give([x])),
        "the whole call": host_time(lambda: function(x)),
    }


def host_time(function: Callable[[], object]) -> float:
    """Return the median microseconds until a function returns."""
    found = []
    for _ in range(200):
        start = time.perf_counter()
        function()
        found.append(time.perf_counter() - start)
        torch.cuda.synchronize()
    return statistics.median(found) * 1e6


def make_functions(
    model: nn.Module, program: wir.Program, x: Tensor, *, with_cpp: bool
) -> dict[str, Callable[[Tensor], Any]]:
    """Return the functions to measure by name, each already warmed up."""
    functions: dict[str, Callable[[Tensor], Any]] = {"eager": model}
    for name, options in COMPILED.items():
        if with_cpp or "C++" not in name:
            functions[name] = torch.compile(copy.deepcopy(model), **options)
    direct = wir.compile(program)
    functions["wir.compile"] = lambda x: direct(x)[0]
    if with_cpp:
        direct_cpp, kept = wir.compile(program, "cpp"), wir.compile(program, "cpp", arena="kept")
        functions["wir.compile, C++"] = lambda x: direct_cpp(x)[0]
        functions["the same, arenas kept"] = lambda x: kept(x)[0]
        by_ops = wir.compile(program, "cpp", gpu_matmul="aten")
        functions["the same, ATen's products"] = lambda x: by_ops(x)[0]
    for function in functions.values():
        times(function, x, 20)
    return functions


def report(
    found: dict[str, list[tuple[float, float]]], functions: dict[str, Callable[[Tensor], Any]]
) -> None:
    """Print the medians and their ratios to stock."""
    medians = {
        name: statistics.median(total for total, _ in rounds) for name, rounds in found.items()
    }
    stock = medians["Inductor, Python"]
    print(f"{'':26}{'us a call':>10}{'us host':>9}{'ratio':>7}")
    for name in functions:
        host = statistics.median(host for _, host in found[name])
        print(f"{name:26}{medians[name]:10.0f}{host:9.0f}{medians[name] / stock:7.2f}")
    for name, (other, bound) in BOUNDS.items():
        if name in medians:
            print(f"{name}: {medians[name] / medians[other]:.2f} of {other} (bound {bound})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--blocks", type=int, default=24)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--no-cpp", action="store_true", help="leave out what is compiled in C++")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        measure(Path(folder), args.blocks, args.rounds, with_cpp=not args.no_cpp)


def measure(folder: Path, blocks: int, rounds: int, *, with_cpp: bool) -> None:
    """Measure and report; exported libraries go to ``folder``."""
    torch.set_grad_enabled(False)
    torch.manual_seed(0)
    model = nn.Sequential(*(Block() for _ in range(blocks))).to("cuda", torch.bfloat16).eval()
    x = torch.randn(1, TOKENS, WIDTH, device="cuda", dtype=torch.bfloat16)

    program = wir.capture(model, (x,))
    functions = make_functions(model, program, x, with_cpp=with_cpp)
    stays, moves = (wir.compile(program, cuda_graph=True) for _ in range(2))
    functions["wir.compile, graph"] = lambda x: stays(x)[0]
    functions["the same, x moves"] = Moving(moves, x)
    names = ["wir.compile, graph", "the same, x moves"]
    if with_cpp:
        library = wir.export(program, folder / "model.so", cuda_graph=True)
        exported, moved = Exported(library), Exported(library)
        functions["exported, graph"] = lambda x: exported(x)[0]
        functions["exported, x moves"] = Moving(moved, x)
        names += ["exported, graph", "exported, x moves"]
    for name in names:
        times(functions[name], x, 20)
    expected = functions["Inductor, Python"](x).clone()

    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in functions}
    for _ in range(rounds):
        for name, function in functions.items():
            found[name].append(times(function, x, 60))

    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, {blocks} blocks")
    report(found, functions)
    differ = [name for name, f in functions.items() if not torch.equal(f(x), expected)]
    print(f"bits that differ from Inductor's: {', '.join(differ) or 'none'}")
    alone = kernel_time(functions["wir.compile"], x)
    print(f"the kernels alone, as a captured graph: {alone:.0f} us")
    for name, captured in (("x stays", stays), ("x moves", moves)):
        print(f"a replay on the host, {name}, us:")
        for part, each in parts(captured, x).items():
            print(f"    {part:20}{each:6.1f}")


if __name__ == "__main__":
    main()
