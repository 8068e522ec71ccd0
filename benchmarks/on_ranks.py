"""Shared parts of the benchmarks of several ranks: starting them, taking turns, what is hidden.

Convention: each rank is a process of its own, with a GPU of its own and NCCL where there are enough
of them, else on the CPU over gloo. A step lasts as long as on the slowest rank.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

__all__ = [
    "add_options",
    "device_of",
    "hidden_share",
    "join",
    "leave",
    "quotients",
    "start",
    "synchronize",
    "turns",
]

#: Beginnings of the names that kernels and work of collectives have in a profile.
_COMMUNICATION = ("nccl", "gloo:")


def add_options(parser: argparse.ArgumentParser, shapes: Iterable[str]) -> None:
    """Add what benchmarks of several ranks are told: how many, which model, how long."""
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--shape", choices=[*shapes], default="llama")
    parser.add_argument("--layers", type=int, help="another number of blocks")
    parser.add_argument("--seconds", type=float, default=280, help="at most, for all")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--here", nargs=3, help=argparse.SUPPRESS)


def start(module: str, given: Sequence[str], ranks: int, seconds: float) -> dict[str, Any]:
    """Run a module on all ranks, ``python -m MODULE --here RANK RANKS FOLDER ...``.

    Args:
        module: A module whose rank 0 calls :func:`leave` with a record.
        given: Further arguments.
        ranks: How many there are.
        seconds: How long they may take. Afterwards all of them are ended.

    Returns:
        The record, or ``{"error": ...}``.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        environment = {**os.environ, "CUBLAS_WORKSPACE_CONFIG": ":4096:8", "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-W", "ignore", "-m", module, "--here"]
        running = [
            subprocess.Popen(
                [*command, str(rank), str(ranks), name, *given],
                env=environment,
                stdout=sys.stderr,
                start_new_session=True,
            )
            for rank in range(ranks)
        ]
        error = _ended(running, time.monotonic() + seconds)
        record = folder / "record.json"
        if error or not record.exists():
            return {"error": error or "rank 0 has left no record"}
        found: dict[str, Any] = json.loads(record.read_text(encoding="utf-8"))
        return found


def _ended(running: Sequence[subprocess.Popen[bytes]], limit: float) -> str:
    """Wait for all; end all if one fails or the time is over. Return what went wrong."""
    error = ""
    while not error and any(each.poll() is None for each in running):
        time.sleep(0.1)
        failed = [rank for rank, each in enumerate(running) if each.poll()]
        if failed:
            error = f"rank {failed[0]} failed with {running[failed[0]].returncode}"
        elif time.monotonic() > limit:
            error = "not done in time"
    for each in running if error else ():
        if each.poll() is None:
            os.killpg(each.pid, signal.SIGKILL)  # its compilers as well
    codes = [each.wait() for each in running]
    return error or next((f"rank {n} failed with {c}" for n, c in enumerate(codes) if c), "")


def device_of(rank: int, ranks: int) -> torch.device:
    """Return where a rank works: a GPU of its own if there is one for each."""
    if torch.cuda.device_count() >= ranks:
        return torch.device("cuda", rank)
    return torch.device("cpu")


def join(rank: int, ranks: int, folder: Path) -> torch.device:
    """Meet the other ranks; return where this one works."""
    device = device_of(rank, ranks)
    os.environ["GLOO_SOCKET_IFNAME"] = os.environ["NCCL_SOCKET_IFNAME"] = "lo"
    store = dist.FileStore(str(folder / "store"), ranks)
    if device.type == "cuda":
        torch.cuda.set_device(device)
        dist.init_process_group("nccl", store=store, rank=rank, world_size=ranks, device_id=device)
    else:
        dist.init_process_group("gloo", store=store, rank=rank, world_size=ranks)
    return device


def leave(record: Mapping[str, Any], folder: Path) -> None:
    """Leave what rank 0 has found, and end this process.

    NCCL waits for captured graphs that hold its kernels before a group goes, so groups stay.
    """
    if dist.get_rank() == 0:
        text = json.dumps(record)
        (folder / "record.json").write_text(text, encoding="utf-8")
        print(text, flush=True)
    dist.barrier()
    sys.stderr.flush()
    os._exit(0)


def synchronize(device: torch.device) -> None:
    """Wait for a GPU."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def turns(
    steps: Mapping[str, Callable[[int], object]], rounds: int, device: torch.device
) -> dict[str, list[float]]:
    """Time steps in turn, on all ranks; return each one's seconds on the slowest rank, by round.

    Every round begins with another one. Each is given the number of the round.
    """
    names, seconds = list(steps), {name: [0.0] * rounds for name in steps}
    for number in range(rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            dist.barrier()
            synchronize(device)
            begin = time.perf_counter()
            steps[name](number)
            synchronize(device)
            seconds[name][number] = time.perf_counter() - begin
    everywhere: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(everywhere, seconds)
    return {
        name: [max(values) for values in zip(*(each[name] for each in everywhere), strict=True)]
        for name in names
    }


def quotients(mine: Sequence[float], others: Sequence[float]) -> tuple[float, float]:
    """Return the median of the ratios of two sides, round by round, and half their quartiles."""
    ratios = [a / b for a, b in zip(mine, others, strict=True)]
    low, middle, high = statistics.quantiles(ratios, n=4)
    return middle, (high - low) / 2


def hidden_share(step: Callable[[], object], device: torch.device) -> dict[str, float]:
    """Profile a step; return the ms of its collectives, and which share other work hides.

    On a GPU that is kernels of NCCL, and the time in which any other kernel runs. Gloo's work is
    hidden by ops, other than those that wait for it.
    """
    activity = torch.profiler.ProfilerActivity
    kinds = [activity.CUDA if device.type == "cuda" else activity.CPU]
    with torch.profiler.profile(activities=kinds) as profile:
        step()
        synchronize(device)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "trace.json")
        profile.export_chrome_trace(str(file))
        events = json.loads(file.read_text(encoding="utf-8"))["traceEvents"]
    wanted = ("kernel",) if device.type == "cuda" else ("cpu_op", "user_annotation")
    spans = [
        (str(each["name"]), float(each["ts"]), float(each["ts"]) + float(each["dur"]))
        for each in events
        if each.get("ph") == "X" and each.get("cat") in wanted
    ]
    return shares(spans)


def shares(spans: Iterable[tuple[str, float, float]]) -> dict[str, float]:
    """Return the ms in which collectives run, and the share in which other work runs as well.

    Args:
        spans: Name, beginning and end of each piece of work, in us.
    """
    talk, work = [], []
    for name, begin, end in spans:
        if name.startswith(_COMMUNICATION):
            talk.append((begin, end))
        elif "c10d" not in name and "wait" not in name:
            work.append((begin, end))
    talk, work = _merged(talk), _merged(work)
    total = sum(end - begin for begin, end in talk)
    both = total + sum(end - begin for begin, end in work)
    hidden = both - sum(end - begin for begin, end in _merged([*talk, *work]))
    return {"talk": total / 1e3, "hidden": hidden / total if total else 1.0}


def _merged(spans: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return spans without overlaps, in order."""
    found: list[tuple[float, float]] = []
    for begin, end in sorted(spans):
        if found and begin <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((begin, end))
    return found
