"""Time whole calls on a GPU: a token of a decoder, with and without captured graphs.

    python -m benchmarks.whole_call --device cuda            # both subjects
    python -m benchmarks.whole_call --device cuda graphs     # one

The decoder is that of ``benchmarks/decoding.py``, which has Llama 3.2 1B's shape. Ways take turns
in one process. *Host* is the calling thread's processor time of a call that waits for nothing;
*row* is the time of a call in a row of calls, from the first until the GPU is done with the last.
*Over* is what the host takes beyond Dynamo alone and the bare program, and ``wir.jit`` beyond its
program. *Kernels* is the replay of the graph that was captured, and nothing else.
"""

from __future__ import annotations

import gc
import os
import statistics
import sys
import time
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

import wrapper_ir as wir
from benchmarks import decoding
from benchmarks.common import OURS, STOCK, Call, apart, bare, machine, nothing, show, verdict
from tests.models.watch import watch_inductor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_CPP: dict[str, Any] = {"emitter": "cpp", "build": "wait"}
_GRAPHS: dict[str, Any] = {"cuda_graph": True}

#: How each way compiles, by subject: with torch.compile, and with ``wir.jit``.
COMPILED: dict[str, dict[str, tuple[str, dict[str, Any]]]] = {
    "plain": {"stock": (STOCK, {}), "ours": (OURS, {}), "ours C++": (OURS, _CPP)},
    "graphs": {
        "stock": (STOCK, {"triton.cudagraphs": True}),
        "ours": (OURS, _GRAPHS),
        "ours C++": (OURS, _CPP | _GRAPHS),
    },
}
JIT: dict[str, dict[str, tuple[str, dict[str, Any]]]] = {
    "plain": {"jit C++": ("cpp", {})},
    "graphs": {"jit": ("python", _GRAPHS), "jit C++": ("cpp", _GRAPHS)},
}

#: The most that the host may take beyond Dynamo and the program, or the program, in microseconds.
OVER = {"ours": 3.0, "ours C++": 2.0, "jit C++": 3.0}

#: The largest ratio of a row of calls of ``wir.jit`` to one of its kernels alone.
OF_KERNELS = 1.05

_ROUNDS, _IN_A_ROW, _AT_ONCE = 15, 20, 3


class Times(NamedTuple):
    """Microseconds a call, one for each round."""

    host: list[float]
    row: list[float]


def run(subjects: list[str], device: str, *, as_json: bool) -> None:
    """Measure subjects, and show them.

    Args:
        subjects: Names of subjects; empty for all.
        device: Where the decoder is.
        as_json: Whether to print a record instead of tables.
    """
    found = {}
    for name in subjects or COMPILED:
        torch.manual_seed(0)
        torch._dynamo.reset()
        with torch.device(device):
            model = decoding.Decoder().to(torch.bfloat16).eval()
        token, place = (torch.tensor(value, device=device) for value in ([[17]], [256]))
        with torch.no_grad():
            calls = calls_of(name, _of(model), (token, place))
            found[name] = batches(calls, torch.cuda.synchronize if device == "cuda" else int)
    where = torch.cuda.get_device_name() if device == "cuda" else device
    record = {
        "machine": machine(),
        "device": where,
        "us": {name: {way: each._asdict() for way, each in found[name].items()} for name in found},
        "rows": {name: list(rows(found[name])) for name in found},
    }
    if as_json:
        show("", (), (), record, as_json=True)
        return
    for name, times in found.items():
        columns = (name, "host us", "row us", "over", "kept", "row/stock", "row/kernels", "kept")
        show(f"A token of a decoder, {where}", columns, rows(times), record, as_json=False)


def _of(model: torch.nn.Module) -> Callable[..., Any]:
    return lambda *args: model(*args)


def calls_of(
    name: str, function: Callable[..., Any], args: tuple[torch.Tensor, ...]
) -> dict[str, Call]:
    """Return one call of a subject, by way."""
    made: dict[str, Call] = {"eager": partial(function, *args)}
    start = time.perf_counter()

    def tell(way: str) -> None:
        print(f"{name}, {way}: compiled after {time.perf_counter() - start:.0f} s", file=sys.stderr)

    for way, (backend, options) in COMPILED[name].items():
        compiled = torch.compile(apart(function), backend=backend, options=options)
        with watch_inductor() as seen:
            made[way] = partial(compiled, *args)
            made[way]()
        tell(way)
        if backend == OURS:
            made[f"bare {way}"] = bare(seen.graphs[0], made[way])
    made["dynamo"] = partial(
        torch.compile(apart(function), backend=nothing(function(*args))), *args
    )
    for way, (target, options) in JIT[name].items():
        jitted = wir.jit(apart(function), target=target, fallback=False, **options)
        made[way] = partial(jitted, *args)
        made[way]()
        alone: Any = wir.compile(jitted.programs[0], target, **options)
        made[f"bare {way}"] = partial(alone, *args)
        for _ in range(4):
            alone(*args)
        graphs = getattr(alone, "cuda_graphs", None)  # of emitted Python
        if graphs is not None and graphs._latest is not None:
            made["kernels"] = graphs._latest.recording.replay
        tell(way)
    return made


def batches(calls: dict[str, Call], wait: Callable[[], object]) -> dict[str, Times]:
    """Time calls in turn, on one core."""
    for call in calls.values():
        for _ in range(8):
            call()
    wait()
    found = {way: Times([], []) for way in calls}
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})  # its distance to the GPU counts
    gc.collect()
    gc.disable()
    try:
        for _ in range(_ROUNDS):
            for way, call in calls.items():
                found[way].host.append(_timed(call, _AT_ONCE, time.thread_time))
                wait()
                found[way].row.append(_timed(call, _IN_A_ROW, time.perf_counter, wait))
    finally:
        gc.enable()
        os.sched_setaffinity(0, before)
    return found


def _timed(
    call: Call, count: int, clock: Callable[[], float], wait: Callable[[], object] = int
) -> float:
    """Return microseconds a call."""
    start = clock()
    for _ in range(count):
        call()
    wait()
    return (clock() - start) / count * 1e6


def rows(times: dict[str, Times]) -> Iterator[tuple[str, ...]]:
    """Format what was found, a row for each way."""
    for way, each in times.items():
        program = times.get(f"bare {way}")
        over = None
        if program is not None:
            parts = [program] if way.startswith("jit") else [program, times["dynamo"]]
            less = zip(each.host, *(part.host for part in parts), strict=True)
            over = statistics.median(first - sum(others) for first, *others in less)
        of_stock = _ratio(each, times["stock"])
        kernels = times.get("kernels") if way.startswith("jit") else None
        of_kernels = None if kernels is None else _ratio(each, kernels)
        yield (
            way,
            f"{statistics.median(each.host):.1f}",
            f"{statistics.median(each.row):.1f}",
            "-" if over is None else f"{over:.1f}",
            verdict(over or 0, None if over is None else OVER.get(way)),
            f"{of_stock:.3f}",
            "-" if of_kernels is None else f"{of_kernels:.3f}",
            verdict(of_kernels or 0, None if of_kernels is None else OF_KERNELS),
        )


def _ratio(first: Times, second: Times) -> float:
    return statistics.median(a / b for a, b in zip(first.row, second.row, strict=True))
