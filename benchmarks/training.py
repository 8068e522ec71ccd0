"""Time training steps of a decoder of Llama 3.2 1B's shape on a GPU, ours against stock.

    python benchmarks/training.py
    python benchmarks/training.py --steps 20 --ways "inductor;inductor again;ours"

Sixteen blocks, 128,256 words, bfloat16, batches of 2 by 1,024 tokens, fused AdamW. A token follows
from the last by a rule with noise, so there is something to learn. Deterministic algorithms are on,
because only then does stock reproduce itself (``inductor again``). Each way runs in its own
process. The table shows ms per step, the first step, peak memory, the first and last loss, and the
number of steps whose loss equals stock's bit for bit.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.first_call import Block

LAYERS, WIDTH, WORDS, BATCH, LENGTH = 16, 2048, 128256, 2, 1024

#: How each way compiles.
WAYS: dict[str, dict[str, Any]] = {
    "inductor": {"backend": "inductor"},
    "inductor again": {"backend": "inductor"},
    "ours": {"backend": "wrapper_ir"},
    "ours, C++": {"backend": "wrapper_ir", "options": {"emitter": "cpp", "build": "wait"}},
}


class Decoder(nn.Module):
    """A decoder with embedding, sixteen blocks and loss."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm, self.head = nn.RMSNorm(WIDTH), nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the loss of predicting each token of ``[batch, length]`` from those before it."""
        x = self.embedding(tokens[:, :-1])
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x)).float()
        return functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())


def batch(step: int) -> Tensor:
    """Return ``int64[BATCH, LENGTH + 1]``; nine in ten tokens are a function of the last."""
    chance = torch.Generator().manual_seed(step)
    rows = [torch.randint(0, 1000, (BATCH,), generator=chance)]
    drawn = torch.randint(0, 1000, (LENGTH, BATCH), generator=chance)
    random = torch.rand((LENGTH, BATCH), generator=chance) < 0.1
    for at in range(LENGTH):
        rows.append(torch.where(random[at], drawn[at], (rows[-1] * 31 + 7) % 1000))
    return torch.stack(rows, 1)


def measure_here(way: str, steps: int) -> None:
    """Train in this process and print a record as JSON."""
    torch.use_deterministic_algorithms(mode=True)
    # Otherwise PyTorch fills memory allocated in C++ but not what Inductor allocates itself.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    torch.manual_seed(0)
    with torch.device("cuda"):
        model = Decoder().to(torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    run = torch.compile(model, **WAYS[way])
    losses, seconds = [], []
    for step in range(steps):
        tokens = batch(step).to("cuda")
        torch.cuda.synchronize()
        start = time.perf_counter()
        loss = run(tokens)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
        losses.append(loss.detach())
    record = {
        "losses": [float(each) for each in losses],
        "first": seconds[0],
        "step": statistics.median(seconds[1:]) * 1e3,
        "peak": torch.cuda.max_memory_allocated() / 2**30,
    }
    print(json.dumps(record))


def measure_apart(way: str, steps: int, seconds: float) -> dict[str, Any]:
    """Train in its own process; return the record or an error."""
    command = [sys.executable, "-m", "benchmarks.training", "--steps", str(steps), "--here", way]
    environment = {**os.environ, "CUBLAS_WORKSPACE_CONFIG": ":4096:8"}
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False, timeout=seconds
        )
    except subprocess.TimeoutExpired:
        return {"error": f"more than {seconds:.0f} s"}
    if done.returncode:
        return {"error": (done.stderr.strip().splitlines() or ["killed"])[-1][:200]}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _row(way: str, found: dict[str, dict[str, Any]]) -> tuple[str, ...]:
    one, stock = found[way], found.get("inductor", {})
    if "error" in one:
        return (way, "-", "-", "-", "-", "-", one["error"])
    losses, others = one["losses"], stock.get("losses", [])
    same = sum(mine == other for mine, other in zip(losses, others, strict=False))
    return (
        way,
        f"{one['step']:.1f}",
        f"{one['step'] / stock['step']:.3f}" if "step" in stock else "-",
        f"{one['first']:.1f}",
        f"{one['peak']:.2f}",
        f"{losses[0]:.4f} to {losses[-1]:.4f}",
        f"{same} of {len(losses)}",
    )


def main() -> None:
    """Train in the requested ways, or in one of them in a child process."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ways", default=";".join(WAYS), help="some of them, between semicolons")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=400, help="at most, for one way")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--here", metavar="WAY", help="one, in this process")
    options = parser.parse_args()
    if options.here:
        measure_here(options.here, options.steps)
        return
    ways = options.ways.split(";")
    found = {way: measure_apart(way, options.steps, options.seconds) for way in ways}
    from benchmarks.common import machine, show

    columns = ("way", "ms a step", "ratio", "first s", "peak GiB", "loss", "stock's bits")
    record = {"machine": machine(), "records": found}
    rows = (_row(way, found) for way in ways)
    show("Training a decoder", columns, rows, record, as_json=options.json)


if __name__ == "__main__":
    main()
