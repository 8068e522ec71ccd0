"""Train a decoder of Llama 3.2 1B's shape over several GPUs, ours against stock.

    python -m benchmarks.spread                         # 2 ranks, all ways
    python -m benchmarks.spread --ways fsdp2 tensor --sides ours "ours, C++"
    python -m benchmarks.spread --shape small           # over gloo where there are no GPUs

Ways are FSDP2, SimpleFSDP and tensor parallelism with parts of sequences (``spread_models``), in
bfloat16, with AdamW. Inductor's scheduling of overlaps and its bucketing of collectives are on for
all sides, with its estimates by formulas, so that all schedule alike. All sides are in one process
of each rank and take turns, each with a model of its own from the same start; ``stock again`` is
the control. Deterministic algorithms are on, because only then does stock reproduce itself.

The table shows ms a step on the slowest rank, its ratio to stock's step of the same round, peak
memory with the side's own model, ms of collectives in a step and which share other kernels hide,
and whether all losses and, in the end, all parameters are stock's, bit for bit.
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor

from benchmarks import on_ranks
from benchmarks.common import machine, show, verdict
from benchmarks.spread_models import SHAPES, WAYS, Decoder, Shape
from wrapper_ir.frontends.inductor import statistics as statistics_of_ours

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch.distributed.device_mesh import DeviceMesh

STOCK = "stock"

#: How each side compiles.
SIDES: dict[str, dict[str, Any]] = {
    STOCK: {"backend": "inductor"},
    "stock again": {"backend": "inductor"},
    "ours": {"backend": "wrapper_ir"},
    "ours, C++": {"backend": "wrapper_ir", "options": {"emitter": "cpp", "build": "wait"}},
    "ours, FX": {"backend": "wrapper_ir", "options": {"emitter": "fx"}},
}

#: The largest ratio of time and of peak memory.
BOUND = 1.0


class Side:
    """A model that one side trains, and what is measured of it."""

    def __init__(
        self, way: str, side: str, shape: Shape, mesh: DeviceMesh, device: torch.device
    ) -> None:
        self._device, self._shape = device, shape
        before = _allocated(device)
        torch.manual_seed(0)
        with device:
            model = Decoder(shape).to(torch.bfloat16)
        self.parameters = model

        def compiled(module: nn.Module) -> nn.Module:
            made: nn.Module = torch.compile(module, dynamic=False, **SIDES[side])
            return made

        self._run = WAYS[way](model, mesh, compiled)
        adam = {"fused": True} if device.type == "cuda" else {"foreach": True}
        self._optimizer = torch.optim.AdamW(self._run.parameters(), lr=1e-4, **adam)
        self.losses: list[Tensor] = []
        begin = time.perf_counter()
        self.step(0)
        on_ranks.synchronize(device)
        self.first = time.perf_counter() - begin
        #: Bytes of its model and the optimizer's state.
        self.held = _allocated(device) - before

    def step(self, number: int) -> None:
        """Make a step with a batch of its number."""
        loss = self._run(_batch(number, self._shape, self._device))
        loss.backward()
        self._optimizer.step()
        self._optimizer.zero_grad()
        self.losses.append(loss.detach())

    def peak(self, number: int) -> int:
        """Return the most bytes that a step holds, with the model but without other sides."""
        if self._device.type != "cuda":
            self.step(number)
            return 0
        others = _allocated(self._device) - self.held
        torch.cuda.reset_peak_memory_stats(self._device)
        self.step(number)
        return torch.cuda.max_memory_allocated(self._device) - others

    def is_like(self, other: Side) -> bool:
        """Return whether losses and parameters are those of another side."""
        mine, others = (
            [*each.losses, *(_local(p) for p in each.parameters.parameters())]
            for each in (self, other)
        )
        return all(map(torch.equal, mine, others))


def _allocated(device: torch.device) -> int:
    return torch.cuda.memory_allocated(device) if device.type == "cuda" else 0


def _local(value: Tensor) -> Tensor:
    return (value.to_local() if isinstance(value, DTensor) else value).detach()


def _batch(number: int, shape: Shape, device: torch.device) -> Tensor:
    chance = torch.Generator().manual_seed(number)
    size = (shape.batch, shape.length + 1)
    return torch.randint(0, shape.words, size, generator=chance).to(device)


def overlap() -> None:
    """Let Inductor bucket collectives and move them to where work hides them."""
    settings: Any = torch._inductor.config.aten_distributed_optimizations
    settings.enable_overlap_scheduling = True
    settings.collective_bucketing = True
    settings.compute_estimator = "analytical"


def measure_here(rank: int, ranks: int, folder: Path, given: argparse.Namespace) -> None:
    """Train on this rank, in one way."""
    device = on_ranks.join(rank, ranks, folder)
    torch.use_deterministic_algorithms(mode=True)
    # Otherwise PyTorch fills memory allocated in C++ but not what Inductor allocates itself.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    overlap()
    (way,), shape = given.ways, _shape(given)
    mesh = init_device_mesh(device.type, (ranks,))
    sides: dict[str, Side] = {}
    for name in [STOCK, "stock again", *given.sides]:
        sides[name] = Side(way, name, shape, mesh, device)
        print(f"{way}, {name}: first step {sides[name].first:.1f} s", flush=True)
    on_ranks.turns({name: each.step for name, each in sides.items()}, 3, device)
    seconds = on_ranks.turns(
        {name: each.step for name, each in sides.items()}, given.rounds, device
    )
    found: dict[str, Any] = {}
    for name, side in sides.items():
        peak = side.peak(given.rounds)
        profiled = on_ranks.hidden_share(lambda side=side: side.step(given.rounds + 1), device)
        ratio, spread = on_ranks.quotients(seconds[name], seconds[STOCK])
        found[name] = {
            "ms": statistics.median(seconds[name]) * 1e3,
            "ratio": ratio,
            "spread": spread,
            "first": side.first,
            "peak": peak / 2**30,
            "same": side.is_like(sides[STOCK]) if name != STOCK else True,
            **profiled,
        }
    everywhere: list[Any] = [None] * ranks
    dist.all_gather_object(everywhere, {name: each["same"] for name, each in found.items()})
    for name, each in found.items():
        each["same"] = all(other[name] for other in everywhere)
    if statistics_of_ours.fallbacks:
        raise SystemExit(f"{statistics_of_ours.fallbacks} graphs were left to stock")
    with torch.device("meta"):
        count = sum(p.numel() for p in Decoder(shape).parameters())
    on_ranks.leave({"machine": machine(), "parameters": count, "sides": found}, folder)


def _shape(given: argparse.Namespace) -> Shape:
    shape = SHAPES[given.shape]
    return dataclasses.replace(shape, layers=given.layers) if given.layers else shape


def _rows(way: str, record: Mapping[str, Any]) -> list[tuple[str, ...]]:
    if "error" in record:
        return [(way, *["-"] * 8, record["error"])]
    sides = record["sides"]
    stock = sides[STOCK]
    rows = []
    for name, each in sides.items():
        peak = each["peak"] / stock["peak"] if stock["peak"] else 1.0
        ours = name.startswith("ours")
        kept = (
            verdict(max(round(each["ratio"] - each["spread"], 3), round(peak, 3)), BOUND)
            if ours
            else "-"
        )
        rows.append(
            (
                f"{way}, {name}",
                f"{each['first']:.1f}",
                f"{each['ms']:.2f}",
                f"{each['ratio']:.3f} +- {each['spread']:.3f}",
                f"{each['peak']:.2f}",
                f"{peak:.3f}",
                f"{each['talk']:.2f}",
                f"{each['hidden']:.0%}",
                "stock's" if each["same"] else "OTHER",
                kept,
            )
        )
    return rows


def main() -> None:
    """Train in the requested ways, each on ranks of its own."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--sides", nargs="+", choices=list(SIDES)[2:], default=["ours"])
    on_ranks.add_options(parser, SHAPES)
    parser.add_argument("--rounds", type=int, default=20)
    given = parser.parse_args()
    if given.here:
        rank, ranks, folder = given.here
        measure_here(int(rank), int(ranks), Path(folder), given)
        return
    limit, found = time.monotonic() + given.seconds, {}
    for way in given.ways:
        options = ["--ways", way, "--sides", *given.sides, "--shape", given.shape]
        options += ["--rounds", str(given.rounds)]
        options += ["--layers", str(given.layers)] if given.layers else []
        left = limit - time.monotonic()
        found[way] = (
            on_ranks.start("benchmarks.spread", options, given.ranks, left)
            if left > 0
            else {"error": "no time was left"}
        )
    columns = ("", "first s", "ms", "ratio", "GiB", "ratio", "talk ms", "hidden", "bits", "kept")
    rows = [row for way, record in found.items() for row in _rows(way, record)]
    title = f"Training over {given.ranks} ranks, {given.shape}"
    show(title, columns, rows, found, as_json=given.json)


if __name__ == "__main__":
    main()
