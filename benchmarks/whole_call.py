"""Time whole calls: what a user pays from calling the compiled model to holding its result.

    python -m benchmarks.whole_call              # every subject
    python -m benchmarks.whole_call add mlp      # some
    python -m benchmarks.whole_call --control    # with stock against itself
    python -m benchmarks.whole_call --device cuda   # a decoder: benchmarks/whole_call_gpu.py

One process, one thread, the processor time of the calling thread, in two manners:

    in turn    a round calls each way once; the order of a round is drawn
    in loops   a round makes a batch of calls of each way, one way after the other

In turn, each way finds the caches as the others have left them, as calls in a program do. In a loop
each finds its own code and data there. Figures are medians of rounds. The ways:

    eager, stock, stock C++   without a compiler; torch.compile with Inductor's two wrappers
    ours, ours C++            torch.compile with us
    dynamo                    torch.compile with a backend that does nothing but hand over a result
    bare, bare C++            the emitted function alone, as Inductor would call it; in training two
    floor, floor C++          torch.compile with a backend that does nothing but call that function;
                              in training: dynamo, bare and node, one after the other
    jit, bare jit             wir.jit in C++, and its program alone
    node                      an autograd node in C++ that computes nothing, forward and backward

The second table has what is over: what ours takes beyond Dynamo alone and the bare program, in
training beyond a node in C++, too, and what ``wir.jit`` takes beyond its program, in microseconds.
Bounds are held against the first column, calls in turn. In loops the parts are cheaper than they
can be in a call that needs them all, since what they read does not fit into the nearest caches
together; that is printed too. Beyond the floor is what such a call takes beyond its parts.
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
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain
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

#: What a way is held against: the ways that are its parts, if they exist, and its floor.
PARTS = {
    "ours": (("dynamo", "bare", "node"), "floor"),
    "ours C++": (("dynamo", "bare C++", "node"), "floor C++"),
    "jit": (("bare jit",), ""),
}

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


def in_loops(calls: dict[str, Call], rounds: int, seconds: float) -> dict[str, list[float]]:
    """Return microseconds a call of each round, by way, each in a loop of its own.

    Args:
        calls: What to call, by way.
        rounds: How many batches of each way.
        seconds: The length of a batch.
    """

    def batch(call: Call, count: int) -> float:
        start = time.thread_time_ns()
        for _ in range(count):
            call()
        return (time.thread_time_ns() - start) / count / 1e3

    counts = {}
    for way, call in calls.items():
        batch(call, 30)
        counts[way] = max(1, int(seconds * 1e6 / batch(call, 30)))
    return in_drawn_order(calls, rounds, lambda way: batch(calls[way], counts[way]))


def one_by_one(calls: dict[str, Call], rounds: int) -> dict[str, list[float]]:
    """Return microseconds of one call of each round, by way, less what reading the clock takes."""

    def once(call: Call) -> float:
        start = time.thread_time_ns()
        call()
        return (time.thread_time_ns() - start) / 1e3

    every: dict[str, Call] = {**calls, "": lambda: None}
    found = in_drawn_order(every, rounds, lambda way: once(every[way]))
    empty = statistics.median(found.pop(""))
    return {way: [each - empty for each in times] for way, times in found.items()}


def in_drawn_order(
    calls: dict[str, Call], rounds: int, timed: Callable[[str], float]
) -> dict[str, list[float]]:
    """Time all ways in each round.

    A call takes up to a third longer after some of the others: in an order that turns, it would
    always follow the same one.
    """
    found: dict[str, list[float]] = {way: [] for way in calls}
    ways, generator = list(calls), random.Random(0)
    gc.collect()
    gc.disable()
    try:
        for _ in range(rounds):
            generator.shuffle(ways)
            for way in ways:
                found[way].append(timed(way))
    finally:
        gc.enable()
    return found


def beyond(found: dict[str, list[float]], way: str, parts: Iterable[str]) -> float | None:
    """Return what a way takes beyond others; None if it or all of them were not timed."""
    timed = [found[each] for each in (way, *parts) if each in found]
    if way not in found or len(timed) == 1:
        return None
    return statistics.median(first - sum(others) for first, *others in zip(*timed, strict=True))


def measure(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Time one subject in every way."""
    subject = SUBJECTS[name]
    torch.manual_seed(0)
    torch._dynamo.reset()
    record: dict[str, Any] = {"subject": name}
    with torch.set_grad_enabled(subject.training):
        calls = calls_of(subject, options.control)
        times = {"in loops": in_loops(calls, options.rounds, options.batch_ms / 1e3)}
        times["in turn"] = one_by_one(calls, options.turns)
    for manner, found in times.items():
        over = {}
        for way, (parts, floor) in PARTS.items():
            if (least := beyond(found, way, parts)) is not None:
                over[way] = least, beyond(found, way, (floor,))
        pairs = zip(found["ours C++"], found["stock"], strict=True)
        record[manner] = {
            "us": {way: statistics.median(each) for way, each in found.items()},
            "over_us": over,
            "of_stock": statistics.median(ours / stock for ours, stock in pairs),
        }
    return record


def rows(record: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """Format medians of one subject: a row for each manner."""
    for manner in MANNERS:
        found = record[manner]
        us = (f"{found['us'][way]:.1f}" if way in found["us"] else "-" for way in COLUMNS)
        kept = verdict(found["of_stock"], SUBJECTS[record["subject"]].of_stock)
        yield (f"{record['subject']}, {manner}", *us, f"{found['of_stock']:.2f}", kept)


def rows_over(record: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """Format what is over, of one subject: a row for each way."""
    turn, loop = (record[manner]["over_us"] for manner in MANNERS)
    for way, bound in OVER.items():
        if way not in turn:
            continue
        most = 2 * OVER_NODE if "node" in record["in turn"]["us"] else bound
        cells = [record["subject"], way, f"{most:.0f}"]
        for over, _ in (turn[way], loop[way]):
            cells += [f"{over:.1f}", verdict(over, most)]
        floors = (floor for _, floor in (turn[way], loop[way]))
        yield (*cells, *("-" if each is None else f"{each:.1f}" for each in floors))


MANNERS = ("in turn", "in loops")
COLUMNS = ("eager", *WAYS, CONTROL, "dynamo", "bare", "bare C++", "floor", "floor C++")
COLUMNS += ("jit", "bare jit", "node")
OVER_COLUMNS = ("over, us", "way", "bound", "in turn", "kept", "in loops", "kept")
OVER_COLUMNS += ("beyond the floor", "in loops")


def main() -> None:
    """Run the requested subjects."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("subjects", nargs="*", metavar="SUBJECT", help=f"of {list(SUBJECTS)}")
    parser.add_argument("--rounds", type=int, default=60, help="batches of each way, in loops")
    parser.add_argument("--turns", type=int, default=600, help="calls of each way, in turn")
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
    record = {"machine": machine(), "subjects": found}
    if options.json:
        show("", (), (), record, as_json=True)
        return
    titles = ("us a call", *COLUMNS, "C++/stock", "kept")
    show("Whole calls", titles, chain.from_iterable(map(rows, found)), record, as_json=False)
    lines = chain.from_iterable(map(rows_over, found))
    show("Beyond their parts", OVER_COLUMNS, lines, record, as_json=False)


if __name__ == "__main__":
    main()
