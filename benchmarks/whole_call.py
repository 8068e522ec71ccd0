"""Time whole calls: what a user pays from calling the compiled model to holding its result.

    python -m benchmarks.whole_call              # every subject
    python -m benchmarks.whole_call add mlp      # some
    python -m benchmarks.whole_call --control    # with stock against itself
    python -m benchmarks.whole_call --device cuda   # a decoder: benchmarks/whole_call_gpu.py

One process, one thread, the processor time of the calling thread. In every round each way makes
one batch of calls; figures are medians of rounds. The order of a round is drawn: a batch takes up
to a third longer after some of the others, and in an order that turns it always follows the same
one. The ways:

    eager, stock, stock C++   without a compiler; torch.compile with Inductor's two wrappers
    ours, ours C++            torch.compile with us
    dynamo                    torch.compile with a backend that does nothing but hand over a result
    bare, bare C++            the emitted function alone, as Inductor would call it
    floor, floor C++          torch.compile with a backend that does nothing but call that function;
                              in training: dynamo, bare and node, one after the other
    jit, bare jit             wir.jit in C++, and its program alone
    node                      an autograd node in C++ that computes nothing, forward and backward

``over`` is what ours takes beyond Dynamo alone and the bare program, and ``wir.jit`` beyond its
program, in microseconds; in training, beyond both programs and that node, too. Part of it is
no code: guards and program push each other's tensors out of the processor's caches when they take
turns. The floor has that part, too.
"""

from __future__ import annotations

import os

# Set before torch is imported, because torch creates its thread pools then.
os.environ["OMP_NUM_THREADS"] = "1"

import argparse
import gc
import random
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional

import wrapper_ir as wir
from benchmarks import whole_call_gpu
from benchmarks.autograd_node import node_alone
from benchmarks.common import OURS, STOCK, Call, apart, bare, machine, nothing, show, verdict
from tests.models.watch import watch_inductor

if TYPE_CHECKING:
    from torch._inductor.output_code import CompiledFxGraph

Made = tuple[Callable[..., Any], tuple[Tensor, ...]]


@dataclass(frozen=True)
class Subject:
    """A model, and what its calls may take.

    Attributes:
        make: Returns a function and its arguments.
        about: What it is.
        training: Whether gradients are tracked.
        of_stock: The largest ratio of our C++ to stock's Python, or None.
    """

    make: Callable[[], Made]
    about: str
    training: bool = False
    of_stock: float | None = None


def add() -> Made:
    """Return the smallest function."""
    return lambda x: x + 1, (torch.randn(4, 4),)


def tracked() -> Made:
    """Return a small function whose weight has gradients."""
    w = torch.randn(4, 4, requires_grad=True)
    return lambda x: (x * w).relu() + 1, (torch.randn(4, 4),)


def of_module(model: nn.Module, *args: Tensor) -> Made:
    """Return a module as a function."""
    return lambda *given: model(*given), args


def ten() -> Made:
    """Return a function of ten arguments."""
    return lambda *given: sum(given[1:], given[0]), tuple(torch.randn(4, 4) for _ in range(10))


def mlp() -> Made:
    """Return eight 64-wide linear layers with ReLU and a softmax at the end, batch 4."""
    layers: list[nn.Module] = []
    for _ in range(8):
        layers += [nn.Linear(64, 64), nn.ReLU()]
    return of_module(nn.Sequential(*layers[:-1], nn.Softmax(-1)).eval(), torch.randn(4, 64))


def encoder() -> Made:
    """Return torch's own encoder at inference."""
    layer = nn.TransformerEncoderLayer(64, 4, 256, batch_first=True)
    model = nn.TransformerEncoder(layer, 6, enable_nested_tensor=False).eval()
    return of_module(model, torch.randn(1, 8, 64))


class Recommender(nn.Module):
    """Looks twenty features up, and lets a small perceptron judge them."""

    def __init__(self) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(100, 16) for _ in range(20))
        self.top = nn.Sequential(nn.Linear(320, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, features: Tensor) -> Tensor:
        found = [table(features[:, at]) for at, table in enumerate(self.tables)]
        result: Tensor = self.top(torch.cat(found, 1)).sigmoid()
        return result


def recommender() -> Made:
    """Return the model of twenty tables, batch 8."""
    return of_module(Recommender().eval(), torch.randint(100, (8, 20)))


class Block(nn.Module):
    """One block of a decoder: norms, attention, a gated perceptron."""

    def __init__(self, width: int = 128, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.RMSNorm(width), nn.RMSNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.up = nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(2 * width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        parts = self.qkv(self.before(x)).view(batch, length, 3, self.heads, -1)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        found = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(found.transpose(1, 2).reshape(batch, length, width))
        gate, up = self.up(self.between(x)).chunk(2, -1)
        result: Tensor = x + self.down(functional.silu(gate) * up)
        return result


def block() -> Made:
    """Return a decoder's block, 16 tokens."""
    return of_module(Block().eval(), torch.randn(1, 16, 128))


class Scales(nn.Module):
    """Adds four hundred parameters of four numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ParameterList(nn.Parameter(torch.randn(4)) for _ in range(400))

    def forward(self, x: Tensor) -> Tensor:
        for part in self.parts:
            x = x + part
        return x


def many() -> Made:
    """Return the model of four hundred parameters."""
    return of_module(Scales().eval(), torch.randn(4, 4))


SUBJECTS = {
    "mlp": Subject(mlp, "8 x Linear(64, 64), batch 4", of_stock=0.43),
    "add": Subject(add, "x + 1", of_stock=0.75),
    "ten": Subject(ten, "the sum of ten arguments"),
    "tracked": Subject(tracked, "(x * w).relu() + 1, forward alone", True, of_stock=0.45),
    "encoder": Subject(encoder, "6 x TransformerEncoderLayer(64)"),
    "recommender": Subject(recommender, "20 embeddings, perceptron"),
    "block": Subject(block, "a decoder's block, 16 tokens"),
    "many": Subject(many, "400 parameters of 4 numbers"),
    "tracked training": Subject(tracked, "the same, forward and backward", True),
    "mlp training": Subject(mlp, "the same, forward and backward", True),
    "block training": Subject(block, "the same, forward and backward", True),
}

#: How each way compiles.
WAYS: dict[str, tuple[str, dict[str, Any]]] = {
    "stock": (STOCK, {}),
    "stock C++": (STOCK, {"cpp_wrapper": True}),
    "ours": (OURS, {}),
    "ours C++": (OURS, {"emitter": "cpp", "build": "wait"}),
}
CONTROL = "stock again"

#: The most that ours may take beyond Dynamo alone and the bare program, and ``wir.jit``, in C++,
#: beyond its bare program, in microseconds.
OVER = {"ours": 3.0, "ours C++": 2.0, "jit": 3.0}

#: The most that ours may take, forward and backward each, beyond Dynamo, the bare programs and one
#: node of autograd that is written in C++, in microseconds.
OVER_NODE = 5.0


def handing(graph: CompiledFxGraph) -> Callable[..., Any]:
    """Return a backend that hands arguments to a graph's emitted function."""
    emitted: Any = graph.current_callable

    def backend(_: torch.fx.GraphModule, __: list[Any]) -> Callable[..., Any]:
        return lambda *args: emitted([*args])

    return backend


def calls_of(subject: Subject, control: bool) -> dict[str, Call]:
    """Return one call of a subject, by way."""
    function, args = subject.make()
    backward = subject.training and "backward" in subject.about
    made: dict[str, Call] = {}

    def whole(compiled: Callable[..., Any]) -> Call:
        if backward:
            return lambda: compiled(*args).sum().backward()
        return lambda: compiled(*args)

    made["eager"] = whole(function)
    ways = {**WAYS, CONTROL: WAYS["stock"]} if control else WAYS
    for way, (backend, options) in ways.items():
        compiled = torch.compile(apart(function), backend=backend, options=options)
        with watch_inductor() as seen:
            made[way] = whole(compiled)
            made[way]()
        if backend == OURS:
            called = seen.graphs if backward else seen.graphs[:1]
            programs = [bare(graph, made[way]) for graph in called]
            made[way.replace("ours", "bare")] = in_turn(programs)
        if backend == OURS and not subject.training:
            floor = torch.compile(apart(function), backend=handing(seen.graphs[0]))
            made[way.replace("ours", "floor")] = whole(floor)
    jitted = wir.jit(apart(function), target="cpp", fallback=False)
    made["jit"] = whole(jitted)
    made["jit"]()
    if jitted.programs:  # none where gradients are recorded
        made["bare jit"] = partial(wir.compile(jitted.programs[0], "cpp"), *args)
    result = function(*args).detach() if backward else function(*args)
    dynamo = torch.compile(apart(function), backend=nothing(result))
    made["dynamo"] = partial(dynamo, *args)
    if backward:
        made["node"] = node_alone(function, args)
        for way in ("", " C++"):
            parts = (made["dynamo"], made["bare" + way], made["node"])
            made["floor" + way] = in_turn([*parts])
    return made


def in_turn(calls: list[Call]) -> Call:
    """Return the call that makes all of them."""
    if len(calls) == 1:
        return calls[0]

    def call() -> None:
        for each in calls:
            each()

    return call


def batches(calls: dict[str, Call], rounds: int, seconds: float) -> dict[str, list[float]]:
    """Return seconds a call of each round, by way."""

    def batch(call: Call, count: int) -> float:
        start = time.thread_time()
        for _ in range(count):
            call()
        return (time.thread_time() - start) / count

    counts = {}
    for way, call in calls.items():
        batch(call, 30)
        counts[way] = max(1, int(seconds / batch(call, 30)))
    found: dict[str, list[float]] = {way: [] for way in calls}
    gc.collect()
    gc.disable()
    try:
        ways, generator = list(calls), random.Random(0)
        for _ in range(rounds):
            generator.shuffle(ways)
            for way in ways:
                found[way].append(batch(calls[way], counts[way]))
    finally:
        gc.enable()
    return found


def measure(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Time one subject in every way."""
    subject = SUBJECTS[name]
    torch.manual_seed(0)
    torch._dynamo.reset()
    with torch.set_grad_enabled(subject.training):
        calls = calls_of(subject, options.control)
        found = batches(calls, options.rounds, options.batch_ms / 1e3)
    median = {way: statistics.median(times) * 1e6 for way, times in found.items()}
    none = [0.0] * options.rounds
    node = found.get("node", none)
    over = {
        way: statistics.median(
            a - sum(parts)
            for a, *parts in zip(found[way], found.get(less, none), found[bare_], node, strict=True)
        )
        * 1e6
        for way, less, bare_ in (
            ("ours", "dynamo", "bare"),
            ("ours C++", "dynamo", "bare C++"),
            ("jit", "", "bare jit"),
        )
        if bare_ in found
    }
    pairs = zip(found["ours C++"], found["stock"], strict=True)
    ratio = statistics.median(ours / stock for ours, stock in pairs)
    return {"subject": name, "us": median, "over_us": over, "of_stock": ratio}


def rows(found: dict[str, Any]) -> Iterator[str]:
    """Format one record."""
    yield found["subject"]
    for way in COLUMNS:
        yield f"{found['us'][way]:.1f}" if way in found["us"] else "-"
    for way, bound in OVER.items():
        if "node" in found["us"]:
            bound = 2 * OVER_NODE
        over = found["over_us"].get(way)
        yield "-" if over is None else f"{over:.1f}"
        yield verdict(over or 0, None if over is None else bound)
    yield f"{found['of_stock']:.2f}"
    yield verdict(found["of_stock"], SUBJECTS[found["subject"]].of_stock)


COLUMNS = ("eager", *WAYS, CONTROL, "dynamo", "bare", "bare C++", "floor", "floor C++")
COLUMNS += ("jit", "bare jit", "node")


def main() -> None:
    """Run the requested subjects."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("subjects", nargs="*", metavar="SUBJECT", help=f"of {list(SUBJECTS)}")
    parser.add_argument("--rounds", type=int, default=60, help="batches of each way")
    parser.add_argument("--batch-ms", type=float, default=4.0, help="length of a batch")
    parser.add_argument("--control", action="store_true", help="stock a second time")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.device != "cpu":
        whole_call_gpu.run(options.subjects, options.device, as_json=options.json)
        return
    found = [measure(name, options) for name in options.subjects or SUBJECTS]
    over = ("over", "kept", "over C++", "kept", "over jit", "kept")
    titles = ("us a call", *COLUMNS, *over, "C++/stock", "kept")
    record = {"machine": machine(), "subjects": found}
    show("Whole calls", titles, map(tuple, map(rows, found)), record, as_json=options.json)


if __name__ == "__main__":
    main()
