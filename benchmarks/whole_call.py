"""Time whole calls: what a user pays from calling the compiled model to holding its result.

    python -m benchmarks.whole_call              # every subject
    python -m benchmarks.whole_call add mlp      # some
    python -m benchmarks.whole_call --control    # with some ways a second time
    python -m benchmarks.whole_call mlp --ways eager stock "ours C++" dynamo "bare C++"
    python -m benchmarks.whole_call --device cuda   # a decoder: benchmarks/whole_call_gpu.py

One process, one thread, the processor time of the calling thread, in two manners:

    in turn    a round calls each way once; the order of a round is drawn
    in loops   a round makes a batch of calls of each way, one way after the other

In turn, each way finds the caches as the others have left them, as calls in a program do. In a loop
each finds its own code and data there. Figures are medians of rounds. Ways that call through Dynamo
trade their frames in each round (``benchmarks/frames.py``). The ways:

    eager, stock, stock C++   without a compiler; torch.compile with Inductor's two wrappers
    ours, ours C++            torch.compile with us
    dynamo                    torch.compile with a backend that does nothing but hand over a result
    bare, bare C++            the emitted function alone, as Inductor would call it; in training two
    floor, floor C++          torch.compile with a backend that does nothing but call that function;
                              in training: dynamo, bare and node, one after the other
    jit, bare jit             wir.jit in C++, and its program alone
    node                      an autograd node in C++ that computes nothing, forward and backward
    ... again                 the same way, compiled a second time

The second table has what is over, in microseconds: what ours takes beyond Dynamo alone and the bare
program, in training beyond a node in C++, too, and what ``wir.jit`` takes beyond its program. The
bound is about calls in turn. In loops the parts are cheaper than they can be in a call that needs
them all, since what they read does not fit into the nearest caches together. How much of it the
floor takes, which runs nothing of ours but the program, is printed beside it, and so is what ours
takes beyond the floor: only that can become less by work on what calls the program.
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
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import torch

import wrapper_ir as wir
from benchmarks import whole_call_gpu
from benchmarks.autograd_node import node_alone
from benchmarks.common import OURS, STOCK, Call, apart, bare, machine, nothing, show, verdict
from benchmarks.frames import Frames, Use
from benchmarks.whole_call_models import SUBJECTS, Subject
from tests.models.watch import watch_inductor

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

#: How each way compiles.
WAYS: dict[str, tuple[str, dict[str, Any]]] = {
    "stock": (STOCK, {}),
    "stock C++": (STOCK, {"cpp_wrapper": True}),
    "ours": (OURS, {}),
    "ours C++": (OURS, {"emitter": "cpp", "build": "wait"}),
}

#: With ``--control``: ways that are timed a second time.
AGAIN = {"stock again": "stock", "ours C++ again": "ours C++"}

#: The most that ours may take beyond Dynamo alone and the bare program, and ``wir.jit``, in C++,
#: beyond its bare program, in microseconds.
OVER = {"ours": 3.0, "ours C++": 2.0, "jit": 3.0}

#: What is added to that for each parameter that a call passes.
OVER_PARAMETER = 0.02

#: What a way is held against: the ways that are its parts, if they exist, and its floor.
PARTS = {
    "ours": (("dynamo", "bare", "node"), "floor"),
    "ours C++": (("dynamo", "bare C++", "node"), "floor C++"),
    "jit": (("bare jit",), ""),
}

#: The most that ours may take, forward and backward each, beyond Dynamo, the bare programs and one
#: node of autograd that is written in C++, in microseconds.
OVER_NODE = 5.0


def handing(emitted: Callable[[list[Any]], Any]) -> Callable[..., Any]:
    """Return a backend that hands arguments to an emitted function."""

    def backend(_: torch.fx.GraphModule, __: list[Any]) -> Callable[..., Any]:
        return lambda *args: emitted([*args])

    return backend


class Ways:
    """The ways to call a subject."""

    def __init__(self, subject: Subject, *, control: bool, timed: Collection[str] | None) -> None:
        """Compile it in every way; ``timed`` names those to be called, or None for all."""
        self._timed = timed and {"stock", "ours C++", *timed}
        self.fixed: dict[str, Call] = {}
        self.frames = Frames()
        self._function, self._args = subject.make()
        self._backward = subject.training and "backward" in subject.about
        result = self._function(*self._args)
        self._nothing = nothing(result.detach() if self._backward else result)
        self.fixed["eager"] = self._whole(self._function)
        again = {way: WAYS[other] for way, other in AGAIN.items() if control}
        for way, (backend, options) in {**WAYS, **again}.items():
            with watch_inductor() as seen:
                called = self._add(way, backend, self._whole, options)
            if way not in ("ours", "ours C++"):
                continue
            graphs = seen.graphs if self._backward else seen.graphs[:1]
            programs = [bare(graph, called) for graph in graphs]
            self.fixed[way.replace("ours", "bare")] = in_turn(programs)
            if not subject.training:
                backend_alone = handing(seen.graphs[0].current_callable)
                self._add(way.replace("ours", "floor"), backend_alone, self._whole)
        self._add_jit()
        self._add("dynamo", self._nothing, self._alone)
        if self._backward:
            self._add_training_floors()

    def __contains__(self, way: str) -> bool:
        """Return whether the subject is called in that way, timed or not."""
        return way in self.fixed or way in self.frames

    def _whole(self, function: Callable[..., Any]) -> Call:
        args = self._args
        if self._backward:
            return lambda: function(*args).sum().backward()
        return lambda: function(*args)

    def _alone(self, function: Callable[..., Any]) -> Call:
        return partial(function, *self._args)

    def _add(
        self,
        way: str,
        backend: str | Callable[..., Any],
        use: Use,
        options: dict[str, Any] | None = None,
    ) -> Call:
        """Compile the function, call it, and add its frame; return the call."""
        function = apart(self._function)
        compiled = torch.compile(function, backend=backend, options=options)
        call = use(compiled)
        for _ in range(2):  # the second call of ours is the first that goes straight
            call()
        self.frames.add(way, function, compiled, use)
        return call

    def _add_jit(self) -> None:
        jitted = wir.jit(apart(self._function), target="cpp", fallback=False)
        self.fixed["jit"] = self._whole(jitted)
        self.fixed["jit"]()
        if jitted.programs:  # none where gradients are recorded
            program = wir.compile(jitted.programs[0], "cpp")
            self.fixed["bare jit"] = partial(program, *self._args)

    def _add_training_floors(self) -> None:
        node = self.fixed["node"] = node_alone(self._function, self._args)
        for way in ("", " C++"):
            programs = self.fixed["bare" + way]

            def use(compiled: Callable[..., Any], programs: Call = programs) -> Call:
                return in_turn([self._alone(compiled), programs, node])

            self._add("floor" + way, self._nothing, use)

    def drawn(self, generator: random.Random) -> dict[str, Call]:
        """Return the calls by way, those through Dynamo from frames that are drawn."""
        calls = {**self.fixed, **self.frames.drawn(generator)}
        return {way: call for way, call in calls.items() if not self._timed or way in self._timed}


def in_turn(calls: list[Call]) -> Call:
    """Return the call that makes all of them."""
    if len(calls) == 1:
        return calls[0]

    def call() -> None:
        for each in calls:
            each()

    return call


def timed(call: Call, count: int = 1) -> float:
    """Return microseconds of processor time a call, of so many in a row."""
    start = time.thread_time_ns()
    for _ in range(count):
        call()
    return (time.thread_time_ns() - start) / count / 1e3


def in_loops(ways: Ways, rounds: int, seconds: float) -> dict[str, list[float]]:
    """Return microseconds a call of each round, by way, each in a loop of its own.

    Args:
        ways: What to call.
        rounds: How many batches of each way.
        seconds: The length of a batch.
    """
    counts = {}
    for way, call in ways.drawn(random.Random(0)).items():
        timed(call, 30)
        counts[way] = max(1, int(seconds * 1e6 / timed(call, 30)))
    return in_drawn_order(ways.drawn, rounds, lambda way, call: timed(call, counts[way]))


def one_by_one(ways: Ways, rounds: int) -> dict[str, list[float]]:
    """Return microseconds of one call of each round, by way, less what reading the clock takes."""

    def drawn(generator: random.Random) -> dict[str, Call]:
        return {**ways.drawn(generator), "": lambda: None}

    found = in_drawn_order(drawn, rounds, lambda _, call: timed(call))
    empty = statistics.median(found.pop(""))
    return {way: [each - empty for each in times] for way, times in found.items()}


def in_drawn_order(
    drawn: Callable[[random.Random], dict[str, Call]],
    rounds: int,
    timed: Callable[[str, Call], float],
) -> dict[str, list[float]]:
    """Time all ways in each round.

    A call takes up to a third longer after some of the others: in an order that turns, it would
    always follow the same one.

    Args:
        drawn: Returns the calls of a round, by way.
        rounds: How many.
        timed: Returns microseconds of a way's call.
    """
    found: dict[str, list[float]] = {}
    generator = random.Random(0)
    gc.collect()
    gc.disable()
    try:
        for _ in range(rounds):
            calls = [*drawn(generator).items()]
            generator.shuffle(calls)
            for way, call in calls:
                found.setdefault(way, []).append(timed(way, call))
    finally:
        gc.enable()
    return found


def beyond(found: dict[str, list[float]], way: str, parts: Collection[str]) -> float | None:
    """Return what a way takes beyond others; None if there are none, or one was not timed."""
    if not parts or not {way, *parts} <= found.keys():
        return None
    timed = [found[each] for each in (way, *parts)]
    return statistics.median(first - sum(others) for first, *others in zip(*timed, strict=True))


def measure(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Time one subject in every way."""
    subject = SUBJECTS[name]
    torch.manual_seed(0)
    torch._dynamo.reset()
    record: dict[str, Any] = {"subject": name}
    with torch.set_grad_enabled(subject.training):
        ways = Ways(subject, control=options.control, timed=options.ways)
        times = {"in loops": in_loops(ways, options.rounds, options.batch_ms / 1e3)}
        times["in turn"] = one_by_one(ways, options.turns)
    for manner, found in times.items():
        pairs = zip(found["ours C++"], found["stock"], strict=True)
        record[manner] = {
            "us": {way: statistics.median(each) for way, each in found.items()},
            "over_us": {way: over for way in PARTS if (over := beyond_parts(found, way, ways))},
            "of_stock": statistics.median(ours / stock for ours, stock in pairs),
        }
    return record


def beyond_parts(found: dict[str, list[float]], way: str, ways: Ways) -> dict[str, float | None]:
    """Return what a way takes beyond its parts, and how much of that its floor takes.

    It is empty where one of them was not timed.
    """
    names, floor = PARTS[way]
    parts = [each for each in names if each in ways]
    over = beyond(found, way, parts)
    if over is None:
        return {}
    return {
        "over": over,
        "floor": beyond(found, floor, parts),
        "beyond the floor": beyond(found, way, (floor,)),
    }


def rows(record: dict[str, Any], columns: Collection[str]) -> Iterator[tuple[str, ...]]:
    """Format medians of one subject, of some ways: a row for each manner."""
    for manner in MANNERS:
        found = record[manner]
        us = (f"{found['us'][way]:.1f}" if way in found["us"] else "-" for way in columns)
        kept = verdict(found["of_stock"], SUBJECTS[record["subject"]].of_stock)
        yield (f"{record['subject']}, {manner}", *us, f"{found['of_stock']:.2f}", kept)


def rows_over(record: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """Format what is over, of one subject: a row for each way."""
    turn, loop = (record[manner]["over_us"] for manner in MANNERS)
    for way, bound in OVER.items():
        if way not in turn:
            continue
        most = 2 * OVER_NODE if "node" in record["in turn"]["us"] else bound
        most += SUBJECTS[record["subject"]].parameters * OVER_PARAMETER
        cells = [record["subject"], way, f"{most:.0f}"]
        for key in turn[way]:
            for each in (turn[way][key], loop[way][key]):
                cells += ["-"] if each is None else [f"{each:.1f}"]
                if key != "floor":  # which is not ours
                    cells += ["-"] if each is None else [verdict(each, most)]
        yield tuple(cells)


MANNERS = ("in turn", "in loops")
COLUMNS = ("eager", *WAYS, *AGAIN, "dynamo", "bare", "bare C++", "floor", "floor C++")
COLUMNS += ("jit", "bare jit", "node")
OVER_COLUMNS = ("us over", "way", "bound", "in turn", "kept", "in loops", "kept")
OVER_COLUMNS += ("floor, in turn", "in loops")
OVER_COLUMNS += ("beyond the floor, in turn", "kept", "in loops", "kept")


def main() -> None:
    """Run the requested subjects."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("subjects", nargs="*", metavar="SUBJECT", help=f"of {list(SUBJECTS)}")
    parser.add_argument("--rounds", type=int, default=60, help="batches of each way, in loops")
    parser.add_argument("--turns", type=int, default=600, help="calls of each way, in turn")
    parser.add_argument("--batch-ms", type=float, default=4.0, help="length of a batch")
    parser.add_argument(
        "--ways",
        nargs="+",
        metavar="WAY",
        help=f"to time, beside stock and ours C++, of {COLUMNS}; what a way is over needs its"
        f" parts: {'; '.join(f'{way}: ' + ', '.join(parts) for way, (parts, _) in PARTS.items())}"
        " (node: where a subject has a backward pass)",
    )
    parser.add_argument("--control", action="store_true", help="some ways a second time")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    options = parser.parse_args()
    subjects = SUBJECTS if options.device == "cpu" else whole_call_gpu.COMPILED
    for given, known in ((options.subjects, subjects), (options.ways or (), COLUMNS)):
        if unknown := [each for each in given if each not in known]:
            parser.error(f"{unknown} is not among {[*known]}")
    torch.set_num_threads(1)
    if options.device != "cpu":
        whole_call_gpu.run(options.subjects, options.device, as_json=options.json)
        return
    found = [measure(name, options) for name in options.subjects or SUBJECTS]
    record = {"machine": machine(), "subjects": found}
    if options.json:
        show("", (), (), record, as_json=True)
        return
    columns = [way for way in COLUMNS if any(way in each["in turn"]["us"] for each in found)]
    titles = ("us a call", *columns, "C++/stock", "kept")
    calls = chain.from_iterable(rows(each, columns) for each in found)
    show("Whole calls", titles, calls, record, as_json=False)
    if lines := [*chain.from_iterable(map(rows_over, found))]:
        show("Beyond their parts", OVER_COLUMNS, lines, record, as_json=False)


if __name__ == "__main__":
    main()
