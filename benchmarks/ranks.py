"""Measure how long several ranks compile one model, over what one of them takes alone.

    python -m benchmarks.ranks              # 2 and 4 ranks, three rounds
    python -m benchmarks.ranks --ranks 8 --rounds 5 --json

The model is a stack of blocks with tensor parallelism, compiled and run forward and backward once.
Each round starts with empty caches. ``alone`` is one process with a fake process group of as many
ranks, which compiles the same graphs. ``shared`` is all ranks over gloo with
``torch.compiler.config.compile_on_one_rank``: one compiles, the others load. ``each`` is without
it: as each rank's graphs name groups of its own, all of them compile. The clock runs from the first
call to the first gradients, and the slowest rank counts. All ranks trace the model with Dynamo, so
a machine with fewer cores than ranks cannot reach the bound; processor time, that of compilers
included, of the rank that takes most of it says whether one with enough of them would.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

#: The largest ratio of ``shared`` over ``alone``, where each rank has a core.
BOUND = 1.2

MODES = ("alone", "shared", "each")


def compile_here(mode: str, rank: int, ranks: int, folder: Path) -> None:
    """Compile as one rank, and leave the seconds in a file."""
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )

    class Block(nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.norm = nn.LayerNorm(width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            hidden = nn.functional.gelu(self.up(self.norm(x)))
            found: torch.Tensor = x + self.down(hidden)
            return found

    class Stack(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = nn.ModuleList(Block(64 + 16 * number) for number in range(6))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            total = x.new_zeros(())
            for number, block in enumerate(self.blocks):
                total = total + block(x[..., : 64 + 16 * number]).square().mean()
            return total

    torch.set_num_threads(1)
    torch.compiler.config.compile_on_one_rank = mode != "each"
    if mode == "alone":
        from torch.testing._internal.distributed.fake_pg import FakeStore

        dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=ranks)
    else:
        os.environ["GLOO_SOCKET_IFNAME"] = "lo"
        store = dist.FileStore(str(folder / "store"), ranks)
        dist.init_process_group("gloo", store=store, rank=rank, world_size=ranks)
    # Rows of a mesh: with groups by their own names, each rank's graphs are its own.
    size = (ranks // 2, 2) if ranks > 2 else (1, ranks)
    mesh = init_device_mesh("cpu", size, mesh_dim_names=("dp", "tp"))
    plan = {f"blocks.{n}.up": ColwiseParallel() for n in range(6)}
    plan |= {f"blocks.{n}.down": RowwiseParallel() for n in range(6)}
    model = parallelize_module(Stack(), mesh["tp"], plan)
    compiled = torch.compile(model, backend="wrapper_ir")
    x = torch.randn(8, 144)
    dist.barrier()
    start, used = time.perf_counter(), processor_time()
    compiled(x).backward()
    found = time.perf_counter() - start, processor_time() - used
    (folder / f"seconds{rank}").write_text(json.dumps(found), encoding="utf-8")
    dist.barrier()
    dist.destroy_process_group()


def processor_time() -> float:
    """Return the processor time of this process and of those that it has waited for, in seconds."""
    kinds = resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN
    return sum(each.ru_utime + each.ru_stime for each in map(resource.getrusage, kinds))


def compile_apart(mode: str, ranks: int) -> tuple[float, float]:
    """Compile in fresh processes with empty caches; return the most seconds, and of a processor.

    Raises:
        SystemExit: A rank failed; its own message has been shown.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        environment = {
            **os.environ,
            "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
            "WRAPPER_IR_CACHE_DIR": str(folder / "wrapper_ir"),
            "OMP_NUM_THREADS": "1",
        }
        command = [sys.executable, "-W", "ignore", "-m", "benchmarks.ranks", "--here", mode]
        count = 1 if mode == "alone" else ranks
        processes = [
            subprocess.Popen([*command, str(rank), str(ranks), name], env=environment)
            for rank in range(count)
        ]
        codes = [process.wait() for process in processes]
        if any(codes):
            raise SystemExit(f"a rank failed ({mode}, {ranks} ranks)")
        rows = [json.loads((folder / f"seconds{rank}").read_text()) for rank in range(count)]
        seconds, processor = (max(column) for column in zip(*rows, strict=True))
        return seconds, processor


def measure(ranks: int, rounds: int, modes: Sequence[str]) -> dict[str, float]:
    """Return medians of the seconds of each mode, and of the ratios within a round.

    Each is there for the clock and for the processor.
    """
    found = [{mode: compile_apart(mode, ranks) for mode in modes} for _ in range(rounds)]
    record: dict[str, float] = {"ranks": ranks}
    for at, kind in enumerate(("", " processor")):
        for mode in modes:
            record[mode + kind] = statistics.median(each[mode][at] for each in found)
            ratios = (each[mode][at] / each["alone"][at] for each in found)
            record[f"{mode}/alone{kind}"] = statistics.median(ratios)
    return record


def main() -> None:
    """Measure and print a line for each number of ranks."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--here", nargs=4, help=argparse.SUPPRESS)
    parser.add_argument("--ranks", nargs="+", type=int, default=[2, 4])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--modes", nargs="+", choices=MODES[1:], default=list(MODES[1:]))
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    given = parser.parse_args()
    if given.here:
        mode, rank, ranks, folder = given.here
        compile_here(mode, int(rank), int(ranks), Path(folder))
        return
    rows = [measure(ranks, given.rounds, ("alone", *given.modes)) for ranks in given.ranks]
    if given.json:
        print(json.dumps(rows))
        return
    cores = len(os.sched_getaffinity(0))
    print(f"{cores} cores; the bound is {BOUND:.1f}x of one rank, where each rank has a core")
    names = {"alone": "alone", "shared": "shared", "each": "each for itself"}
    for row in rows:
        parts = [
            f"{names[mode]} {row[mode]:.1f} s ({row[f'{mode}/alone']:.2f}x; processor "
            f"{row[f'{mode} processor']:.1f} s, {row[f'{mode}/alone processor']:.2f}x)"
            for mode in ("alone", *given.modes)
        ]
        print(f"{row['ranks']:.0f} ranks: {', '.join(parts)}")


if __name__ == "__main__":
    main()
