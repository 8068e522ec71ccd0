"""Time decoding one token with tensor parallelism and captured graphs, ours against stock.

    python -m benchmarks.spread_decoding
    python -m benchmarks.spread_decoding --ways reduce-overhead "ours, C++" --rounds 3
    python -m benchmarks.spread_decoding --without-guards
    python -m benchmarks.spread_decoding --in-turn --ways reduce-overhead "ours, C++"
    python -m benchmarks.spread_decoding --shape small     # over gloo where there are no GPUs

A decoder of Llama 3.2 1B's shape (``spread_models``), batch 1, bfloat16, a static cache. Heads and
inner features are split, and each half of a block ends with an all-reduce. Each way runs in its own
processes, in turn, because gaps between the kernels of a graph depend on what a process has
created. With ``--in-turn`` all ways are in one process of each rank and take turns, because
processes run Python at different speeds; they trade their frames (``benchmarks/frames.py``). The
table shows ms a call on the slowest rank, back to back and waiting for each call, what the host
takes for a call that waits for nothing, the ratio to stock's ``reduce-overhead``, peak memory, how
many graphs were captured, and whether the bits are the same. ``Dynamo alone`` is a backend that
does nothing: guards on distributed tensors are functions of Python, and take longer than all else
that the host does. ``--without-guards`` leaves them out in each way
(``torch.compiler.skip_all_guards_unsafe``), as servers do.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import os
import random
import statistics
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)
from torch.nn import functional

from benchmarks import on_ranks
from benchmarks.common import Call, apart, machine, show, verdict
from benchmarks.frames import Frames
from benchmarks.spread_models import SHAPES, FeedForward, Shape, turned

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import FunctionType

STOCK = "reduce-overhead"

ALONE = "Dynamo alone"


def nothing(graph: Callable[..., object], _: object) -> Callable[..., object]:
    """Return a function that computes its results in the first call, and returns them in all."""
    results: list[object] = []

    def run(*args: object) -> object:
        if not results:
            results.append(graph(*args))
        return results[0]

    return run


#: How each way calls ``torch.compile``; empty for ``wir.jit``.
WAYS: dict[str, dict[str, Any]] = {
    STOCK: {"options": {"triton.cudagraphs": True}},  # which that mode stands for
    ALONE: {"backend": nothing},
    "ours": {"backend": "wrapper_ir", "options": {"cuda_graph": True}},
    "ours, C++": {
        "backend": "wrapper_ir",
        "options": {"emitter": "cpp", "build": "wait", "cuda_graph": True},
    },
    "wir.jit, C++": {},  # which has no Dynamo, and no guards
}

#: The largest ratio.
BOUND = 0.95

_ROUNDS = 15


class Attention(nn.Module):
    """Attention of one token to a cache of the heads of one rank."""

    keys: Tensor
    values: Tensor

    def __init__(self, shape: Shape, ranks: int) -> None:
        super().__init__()
        self.size, width = shape.size, shape.width
        self.q, self.out = (nn.Linear(width, width, bias=False) for _ in range(2))
        self.k, self.v = (nn.Linear(width, shape.groups * self.size, bias=False) for _ in range(2))
        for name in ("keys", "values"):
            here = torch.zeros(1, shape.groups // ranks, shape.length, self.size)
            self.register_buffer(name, here)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, place: Tensor, mask: Tensor) -> Tensor:
        """Return ``[1, 1, width]`` and write the token's keys and values to the cache."""
        q, k, v = (
            part(x).unflatten(-1, (-1, self.size)).transpose(1, 2)
            for part in (self.q, self.k, self.v)
        )
        q, k = (each * cos + turned(each) * sin for each in (q, k))
        self.keys.index_copy_(2, place, k)
        self.values.index_copy_(2, place, v)
        times = q.shape[1] // k.shape[1]
        k, v = (each.repeat_interleave(times, 1) for each in (self.keys, self.values))
        y = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        found: Tensor = self.out(y.transpose(1, 2).flatten(2))
        return found


class Layer(nn.Module):
    """A block of the decoder."""

    def __init__(self, shape: Shape, ranks: int) -> None:
        super().__init__()
        self.before, self.between = nn.RMSNorm(shape.width), nn.RMSNorm(shape.width)
        self.attention, self.forward_part = Attention(shape, ranks), FeedForward(shape)

    def forward(self, x: Tensor, *given: Tensor) -> Tensor:
        """Return ``[1, 1, width]``."""
        x = x + self.attention(self.before(x), *given)
        found: Tensor = x + self.forward_part(self.between(x))
        return found


class Decoder(nn.Module):
    """Maps a token to the scores of the next one."""

    turns: Tensor

    def __init__(self, shape: Shape, ranks: int) -> None:
        super().__init__()
        self.length = shape.length
        self.embedding = nn.Embedding(shape.words, shape.width)
        self.layers = nn.ModuleList(Layer(shape, ranks) for _ in range(shape.layers))
        self.norm = nn.RMSNorm(shape.width)
        self.head = nn.Linear(shape.width, shape.words, bias=False)
        turns = 1 / 500000 ** (torch.arange(0, shape.size, 2) / shape.size)
        self.register_buffer("turns", turns)

    def forward(self, token: Tensor, place: Tensor) -> Tensor:
        """Return the scores ``[1, 1, words]`` of the word after ``token`` at ``place``."""
        x = self.embedding(token)
        angles = torch.outer(place.float(), self.turns.float()).repeat(1, 2)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        seen = torch.arange(self.length, device=token.device)[None] <= place[:, None]
        mask = torch.where(seen, 0.0, float("-inf")).to(x.dtype)[None, None]
        for layer in self.layers:
            x = layer(x, cos, sin, place, mask)
        found: Tensor = self.head(self.norm(x))
        return found


def split(shape: Shape, ranks: int, device: torch.device) -> nn.Module:
    """Return a decoder of which each rank has a part."""
    torch.manual_seed(0)
    with device:
        model = Decoder(shape, ranks).to(torch.bfloat16).eval()
    plan: dict[str, Any] = {"head": ColwiseParallel(output_layouts=Replicate())}
    for at in range(shape.layers):
        parts = [f"layers.{at}.attention.{part}" for part in ("q", "k", "v")]
        parts += [f"layers.{at}.forward_part.{part}" for part in ("gate", "up")]
        plan |= {name: ColwiseParallel() for name in parts}
        for name in ("attention.out", "forward_part.down"):
            plan[f"layers.{at}.{name}"] = RowwiseParallel()
    return parallelize_module(model, init_device_mesh(device.type, (ranks,)), plan)


def measure_here(rank: int, ranks: int, folder: Path, given: argparse.Namespace) -> None:
    """Measure ways on this rank, which take turns."""
    device = on_ranks.join(rank, ranks, folder)
    model = split(_shape(given), ranks, device)
    token, place = torch.tensor([[17]], device=device), torch.tensor([16], device=device)
    found: dict[str, dict[str, Any]] = {}
    frames, others, generator = Frames(), dict[str, Call](), random.Random(0)  # as on all ranks

    def use(compiled: Callable[..., Any]) -> Call:
        return partial(compiled, token, place)

    def calls() -> dict[str, Call]:
        made = others | frames.drawn(generator)
        return {way: made[way] for way in given.ways}

    with torch.no_grad():
        for way in given.ways:
            function = apart(lambda *args: model(*args))
            run = _compiled(model, function, way, with_guards=not given.without_guards)
            found[way] = _first(partial(run, token, place), way)
            if WAYS[way]:
                frames.add(way, function, run, use)
            else:
                others[way] = use(run)
        cores = sorted(os.sched_getaffinity(0))
        # A core of its own: its distance to the GPU counts. Neighbours may be two threads of one,
        # and the first takes interrupts.
        os.sched_setaffinity(0, {cores[(rank * len(cores) // ranks + 2) % len(cores)]})
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats()
        times = _times(calls, device, given.calls)
    peak = torch.cuda.max_memory_allocated() / 2**30 if device.type == "cuda" else 0.0
    everywhere: list[Any] = [None] * ranks
    here = {way: found[way] | times[way] | {"peak": peak} for way in found}
    dist.all_gather_object(everywhere, here)
    for way, record in found.items():
        for name in ("peak", *times[way]):
            record[name] = max(each[way][name] for each in everywhere)
        record["machine"] = machine()
        if len({each[way]["bits"] for each in everywhere}) > 1:
            record["bits"] = "ranks differ"
    on_ranks.leave(found, folder)


def _first(call: Callable[[], Tensor], way: str) -> dict[str, Any]:
    """Make the first calls; return their time, a digest of results, and what was captured."""
    import wrapper_ir as wir

    before = wir.cuda_graph_status()
    digest, begin = hashlib.sha256(), time.perf_counter()
    for _ in range(8):
        digest.update(call().contiguous().view(torch.uint8).cpu().numpy().tobytes())
    first = time.perf_counter() - begin
    mine = wir.cuda_graph_status()
    for each in before:
        mine.remove(each)  # whose program has not been called since
    graphs = "-" if way in (STOCK, ALONE) else _graphs(mine)
    return {"first": first, "bits": digest.hexdigest()[:12], "graphs": graphs}


def _compiled(
    model: nn.Module, function: FunctionType, way: str, *, with_guards: bool
) -> Callable[..., Tensor]:
    if how := WAYS[way]:
        if not with_guards:
            skip = {"guard_filter_fn": torch.compiler.skip_all_guards_unsafe}
            how = how | {"options": how.get("options", {}) | skip}
        return torch.compile(function, **how)
    import wrapper_ir as wir

    return wir.jit(model, target="cpp", cuda_graph=True, fallback=False)


def _times(
    draw: Callable[[], dict[str, Call]], device: torch.device, count: int
) -> dict[str, dict[str, float]]:
    """Return ms a call by way: in a row, alone, and of the host where nothing is waited for."""
    found: dict[str, dict[str, list[float]]] = {}
    for _ in range(_ROUNDS):
        calls = draw()
        for way, call in calls.items():
            times = found.setdefault(way, {"row": [], "alone": [], "host": []})
            dist.barrier()
            on_ranks.synchronize(device)
            begin = time.perf_counter()
            for _ in range(count):
                call()
            on_ranks.synchronize(device)
            times["row"].append((time.perf_counter() - begin) / count)
        for way, call in calls.items():
            for _ in range(count // 4):
                begin, host = time.perf_counter(), time.thread_time()
                call()
                found[way]["host"].append(time.thread_time() - host)
                on_ranks.synchronize(device)
                found[way]["alone"].append(time.perf_counter() - begin)
    return {
        way: {name: statistics.median(each) * 1e3 for name, each in times.items()}
        for way, times in found.items()
    }


def _graphs(found: Sequence[Any]) -> str:
    """Return what became of capturing: how many graphs there are, and why there are no more."""
    reasons = {reason for each in found for reason in each.reasons}
    count = sum(each.graphs for each in found)
    return f"{count} of {len(found)}" + (f" ({'; '.join(sorted(reasons))})" if reasons else "")


def _shape(given: argparse.Namespace) -> Shape:
    """Return the sizes: a cache of 512 positions, however long batches of training are."""
    shape = SHAPES[given.shape]
    layers = given.layers or shape.layers
    return dataclasses.replace(shape, layers=layers, batch=1, length=min(shape.length, 512))


def _row(way: str, found: dict[str, dict[str, Any]]) -> tuple[str, ...]:
    one, stock = found[way], found.get(STOCK, {})
    if "error" in one:
        return (way, *["-"] * 8, one["error"])
    ratio = one["row"] / stock["row"] if "row" in stock else None
    is_bound = ratio is not None and way not in (STOCK, ALONE)
    wanted = next(
        (each["bits"] for way, each in found.items() if "bits" in each and way != ALONE), ""
    )
    return (
        way,
        f"{one['first']:.1f}",
        f"{one['row']:.3f}",
        f"{one['alone']:.3f}",
        f"{one['host']:.3f}",
        "-" if ratio is None else f"{ratio:.3f}",
        f"{one['peak']:.3f}",
        one["graphs"],
        "-" if way == ALONE else "same" if one["bits"] == wanted else "other",
        verdict(ratio, BOUND) if ratio is not None and is_bound else "-",
    )


def main() -> None:
    """Measure the requested ways, each on ranks of its own."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=[STOCK, ALONE, "ours"])
    on_ranks.add_options(parser, SHAPES)
    parser.add_argument("--calls", type=int, default=60)
    parser.add_argument("--without-guards", action="store_true", help="leave out Dynamo's guards")
    parser.add_argument(
        "--in-turn", action="store_true", help="one process of each rank for all ways"
    )
    parser.add_argument("--rounds", type=int, default=2, help="processes of each way, in turn")
    given = parser.parse_args()
    if given.here:
        rank, ranks, folder = given.here
        measure_here(int(rank), int(ranks), Path(folder), given)
        return
    limit = time.monotonic() + given.seconds
    records: dict[str, list[dict[str, Any]]] = {way: [] for way in given.ways}
    for number in range(given.rounds):
        together = [given.ways] if given.in_turn else [[way] for way in given.ways]
        for ways in together if number % 2 == 0 else together[::-1]:
            options = ["--ways", *ways, "--shape", given.shape, "--calls", str(given.calls)]
            options += ["--layers", str(given.layers)] if given.layers else []
            options += ["--without-guards"] if given.without_guards else []
            left = limit - time.monotonic()
            if number == 0 or left > 30:
                found = on_ranks.start(
                    "benchmarks.spread_decoding", options, given.ranks, max(left, 1)
                )
                for way in ways:
                    records[way].append(found if "error" in found else found[way])
    middle = {way: _middle(each) for way, each in records.items()}
    columns = (
        "",
        "first s",
        "ms in a row",
        "alone",
        "host",
        "ratio",
        "GiB",
        "graphs",
        "bits",
        "kept",
    )
    title = f"A token of a decoder over {given.ranks} ranks, {given.shape}"
    show(title, columns, [_row(way, middle) for way in middle], records, as_json=given.json)


def _middle(records: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the median of those that are done, or an error if there is none."""
    done = [each for each in records if "error" not in each]
    return sorted(done, key=lambda each: each["row"])[(len(done) - 1) // 2] if done else records[0]


if __name__ == "__main__":
    main()
