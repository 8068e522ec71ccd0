"""Ranks that do not do the same, or die, under ``torch.compile`` with ``verify_ranks``.

    python tests/distributed/faults.py FOLDER dies|lives CASE:EMITTER ...

Two ranks go through all cases. For each that a rank dies in there is a third one, which does that
alone; the last of all keeps the store, and dies at the end. Each rank prints what it heard of each
case: its number, the case, how it ended, and whether it names a line of ours. With ``lives``, only
the last one dies.
"""

from __future__ import annotations

import itertools
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import _functional_collectives as collectives

from tests.distributed.runs import EMITTERS, PATIENCE
from wrapper_ir.frontends.inductor import statistics
from wrapper_ir.verify.ranks.report import RanksDisagreeError

#: What two ranks do; what a third one dies in: before it comes, or while it writes to a cache.
TWO, DEATHS = ("same", "shape", "version", "late", "gather"), ("dies", "torn")

#: No two have programs that fit: each has its own size.
CASES = [f"{case}:{emitter}" for case, emitter in itertools.product((*TWO, *DEATHS), EMITTERS)]
#: Some for each emitter: a disagreement and a death.
IN_TURN = ["shape:python", "version:cpp", "late:fx", "gather:fx"]
IN_TURN += ["dies:python", "dies:fx", "torn:cpp"]

#: The file that is written but not yet there when a rank dies: what describes a library of kernels,
#: which is there; a program's library, whose parts are; the graph of a module, which is.
TORN = {"python": "objects/*/*.json", "cpp": "objects/*/*.so", "fx": "fxgraph/*/*/*"}

#: The last case, in which the store is gone.
END = "end:python"

#: Seconds after which a process that hangs ends.
LIMIT = 200


def total(x: Tensor, group: Any) -> Tensor:
    return collectives.all_reduce(x * 2, "sum", group) + 1


def most(x: Tensor, group: Any) -> Tensor:
    return collectives.all_reduce(x * 2, "max", group) + 1


def gathered(x: Tensor, group: Any) -> Tensor:
    """Pytorch 174844: with NCCL the gather may return, and the sum behind it hangs."""
    parts = [torch.empty_like(x) for _ in range(dist.get_world_size(group))]
    dist.all_gather(parts, x, group=group)
    return collectives.all_reduce(torch.stack(parts).sum(), "sum", group)


def called(name: str, rank: int, group: Any, patience: int) -> Any:
    """Do what a case says, as one of the ranks."""
    torch._dynamo.reset()
    case, emitter = name.split(":")
    function = most if case == "version" and rank else total
    x = torch.ones(size(name) + (100 if case == "shape" and rank else 0))
    if case == "gather":
        function, x = gathered, torch.ones(()) if rank else torch.ones(3, 4)
    if case == "late" and rank:
        time.sleep(0.5)
    options = {"emitter": emitter, "verify_ranks": "error", "verify_ranks_seconds": patience}
    run = torch.compile(function, backend="wrapper_ir", options=options)
    return run(x, group).sum().item()


def size(name: str) -> int:
    """How many elements a case has."""
    return 1000 + 16 * [*CASES, END].index(name)  # of no other test


def told(name: str, rank: int, group: Any, patience: int) -> None:
    """Print how a case ends."""
    statistics.reset()
    try:
        heard = f"{called(name, rank, group, patience)} {statistics.programs}"
    except RanksDisagreeError as error:
        problem = error.report.problems[0]
        known = any("faults.py:" in where.source for where in problem.where)
        known = known or "faults.py:" in problem.message
        heard = f"{problem.kind} {known}" if known else f"{problem.kind}: {str(error)[:999]!r}"
    os.write(1, f"{rank} {name} {heard}\n".encode())  # in one piece: all processes write


def die(name: str, rank: int, group: Any, folder: Path) -> None:
    """Be the rank that dies in a case."""
    case, emitter = name.split(":")
    rename = os.rename

    def end(how: object = "") -> None:
        (folder / f"{name} is dead").write_text(str(how), encoding="utf-8")
        os.kill(os.getpid(), signal.SIGKILL)

    def torn(source: Any, target: Any) -> None:
        if Path(target).match(TORN[emitter]):
            end(target)
        rename(source, target)

    while len(list(folder.glob(f"{name} begins for *"))) < 2:
        time.sleep(0.01)
    if case == "torn":
        os.rename = os.replace = torn
        try:
            called(name, rank, group, patience=60)
        except Exception as error:
            end(f"it did not write: {error}")
    end()


def store(rank: int, count: int, folder: Path) -> dist.Store:
    """The store, which the last rank keeps."""
    port, host = folder / "port", "127.0.0.1"
    if rank == count - 1:
        found = dist.TCPStore(host, 0, count, is_master=True, wait_for_workers=False)
        (folder / "unfinished").write_text(str(found.port), encoding="utf-8")
        (folder / "unfinished").replace(port)
        return found
    while not port.exists():
        time.sleep(0.01)
    return dist.TCPStore(host, int(port.read_text(encoding="utf-8")), count, timeout=PATIENCE)


def work(rank: int, count: int, folder: Path, cases: list[str], *, lives: bool) -> None:
    """Go through cases, or be the third rank of one of them."""
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    signal.alarm(LIMIT)
    world = store(rank, count, folder)
    dist.init_process_group("gloo", store=world, rank=rank, world_size=count, timeout=PATIENCE)
    thirds = with_thirds(cases)
    pair = dist.new_group([0, 1])
    groups = {name: dist.new_group([0, 1, third]) for third, name in enumerate(thirds, 2)}
    dying = [END] if lives else [*thirds, END]
    if rank >= 2:
        mine = [*thirds, END][rank - 2]
        if mine in dying:
            die(mine, rank, groups.get(mine), folder)
        told(mine, rank, groups[mine], patience=60)
        return
    for name in (*cases, END):
        if name in dying:
            (folder / f"{name} begins for {rank}").touch()
            while not (folder / f"{name} is dead").exists():
                time.sleep(0.01)
        told(name, rank, groups.get(name, pair), patience=1 if name in dying else 60)


def with_thirds(cases: list[str]) -> list[str]:
    """Those of some cases that have a third rank."""
    return [name for name in cases if name.startswith(DEATHS)]


def main(folder: Path, how: str, cases: list[str]) -> None:
    """Fork for all ranks but the first."""
    torch.set_num_threads(1)
    count, rank, children = 3 + len(with_thirds(cases)), 0, list[int]()
    for other in range(1, count):
        child = os.fork()
        if not child:
            rank = other
            break
        children.append(child)
    work(rank, count, folder, cases, lives=how == "lives")
    if not rank:
        for child in children:
            os.waitpid(child, 0)
    os._exit(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
