"""Time decoding one token with a decoder of Llama 3.2 1B's shape on a GPU, ours against stock.

    python benchmarks/decoding.py
    python benchmarks/decoding.py --ways "reduce-overhead;torch.compile" --rounds 3

Batch 1, bfloat16, a static cache of 512 positions. Each way runs in its own process: the gap
between the kernels of a graph (0.1 or 0.4 us on an H200) depends on how many graphs and streams the
process has created, no matter by whom. The table shows ms per call, both back to back and waiting
for each call, peak memory, and whether the bits match those of the first way. Calls are
timed on one core, the same in each process. Host-bound figures still vary from process to process:
``--rounds`` runs each way several times, alternating, and shows the median.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import statistics
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional

if TYPE_CHECKING:
    from collections.abc import Callable

LAYERS, WIDTH, INNER, HEADS, GROUPS, SIZE, WORDS, PLACES = 16, 2048, 8192, 32, 8, 64, 128256, 512

#: The way each way is compared with, and the largest ratio allowed.
WAYS: dict[str, tuple[str, float | None]] = {
    "reduce-overhead": ("", None),
    "torch.compile": ("reduce-overhead", 0.95),
    "torch.compile, no branches": ("reduce-overhead", None),
    "wir.compile": ("reduce-overhead", 0.9),
    "wir.compile, C++": ("reduce-overhead", 0.9),
    "cpp_wrapper": ("", None),
    "C++, no graphs": ("cpp_wrapper", 0.75),
    "C++, no graphs, ATen's products": ("cpp_wrapper", None),
}


class Norm(nn.Module):
    """RMS normalisation, computed in float32."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        """Return ``[1, 1, WIDTH]``."""
        y = x.float()
        return self.weight * (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-5)).to(x.dtype)


def _turned(x: Tensor) -> Tensor:
    a, b = x.chunk(2, -1)
    return torch.cat((-b, a), -1)


class Layer(nn.Module):
    """A decoder block with its part of the KV cache."""

    keys: Tensor
    values: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.q, self.out = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(2))
        self.k, self.v = (nn.Linear(WIDTH, GROUPS * SIZE, bias=False) for _ in range(2))
        self.gate, self.up = (nn.Linear(WIDTH, INNER, bias=False) for _ in range(2))
        self.down = nn.Linear(INNER, WIDTH, bias=False)
        self.before, self.between = Norm(), Norm()
        for name in ("keys", "values"):
            self.register_buffer(name, torch.zeros(1, GROUPS, PLACES, SIZE))

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, place: Tensor, mask: Tensor) -> Tensor:
        """Return ``[1, 1, WIDTH]`` and write the token's keys and values to the cache."""
        y = self.before(x)
        q = self.q(y).view(1, 1, HEADS, SIZE).transpose(1, 2)
        k = self.k(y).view(1, 1, GROUPS, SIZE).transpose(1, 2)
        v = self.v(y).view(1, 1, GROUPS, SIZE).transpose(1, 2)
        q, k = (each * cos + _turned(each) * sin for each in (q, k))
        self.keys.index_copy_(2, place, k)
        self.values.index_copy_(2, place, v)
        k, v = (each.repeat_interleave(HEADS // GROUPS, 1) for each in (self.keys, self.values))
        y = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = x + self.out(y.transpose(1, 2).reshape(1, 1, WIDTH))
        y = self.between(x)
        found: Tensor = x + self.down(functional.silu(self.gate(y)) * self.up(y))
        return found


class Decoder(nn.Module):
    """Sixteen blocks that map a token to the scores of the next one."""

    turns: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm, self.head = Norm(), nn.Linear(WIDTH, WORDS, bias=False)
        self.register_buffer("turns", 1 / 500000 ** (torch.arange(0, SIZE, 2) / SIZE))

    def forward(self, token: Tensor, place: Tensor) -> Tensor:
        """Return ``[1, 1, WORDS]``."""
        x = self.embedding(token)
        angle = (place[:, None].float() * self.turns.float()).repeat(1, 2)
        cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        seen = torch.arange(PLACES, device=token.device)[None] <= place[:, None]
        mask = torch.where(seen, 0.0, float("-inf")).to(x.dtype)[None, None]
        for layer in self.layers:
            x = layer(x, cos, sin, place, mask)
        found: Tensor = self.head(self.norm(x))
        return found


def compiled(way: str, model: nn.Module, inputs: tuple[Tensor, ...]) -> Callable[..., Any]:
    """Return the model compiled in the given way."""
    import wrapper_ir as wir

    if way == "reduce-overhead":
        return torch.compile(model, mode="reduce-overhead")
    if way == "cpp_wrapper":
        return torch.compile(model, options={"cpp_wrapper": True})
    if way.startswith("C++, no graphs"):
        products = {"gpu_matmul": "aten"} if way.endswith("ATen's products") else {}
        return torch.compile(
            model, backend="wrapper_ir", options={"emitter": "cpp", "build": "wait", **products}
        )
    if way.startswith("torch.compile"):
        options: dict[str, Any] = {"cuda_graph": True}
        if way.endswith("no branches"):
            options["cuda_graph_branches"] = 0
        return torch.compile(model, backend="wrapper_ir", options=options)
    emitter = "cpp" if way.endswith("C++") else "python"
    function = wir.compile(wir.capture(model, inputs), emitter, cuda_graph=True)
    return lambda *args: function(*args)[0]


def measure_here(way: str) -> None:
    """Measure a way in this process and print a record as JSON."""
    torch.manual_seed(0)
    with torch.device("cuda"):
        model = Decoder().to(torch.bfloat16).eval()
    token, place = torch.tensor([[17]], device="cuda"), torch.tensor([256], device="cuda")
    with torch.no_grad():
        call = compiled(way, model, (token, place))
        digest = hashlib.sha256()
        for _ in range(8):
            found = call(token, place)
            digest.update(found.view(torch.uint8).cpu().numpy().tobytes())
        torch.cuda.reset_peak_memory_stats()
        rows, alone = [], []
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # its distance to the GPU counts
        for _ in range(5):
            start = time.perf_counter()
            for _ in range(60):
                call(token, place)
            torch.cuda.synchronize()
            rows.append((time.perf_counter() - start) / 60)
        for _ in range(60):
            start = time.perf_counter()
            call(token, place)
            torch.cuda.synchronize()
            alone.append(time.perf_counter() - start)
    record = {
        "row": min(rows) * 1e3,
        "alone": statistics.median(alone) * 1e3,
        "peak": torch.cuda.max_memory_allocated() / 2**30,
        "bits": digest.hexdigest()[:12],
    }
    print(json.dumps(record))


def measure_apart(way: str, seconds: float) -> dict[str, Any]:
    """Measure a way in its own process; return the record or an error."""
    command = [sys.executable, "-m", "benchmarks.decoding", "--here", way]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds)
    except subprocess.TimeoutExpired:
        return {"error": f"more than {seconds:.0f} s"}
    if done.returncode:
        return {"error": done.stderr.strip().splitlines()[-1][:80]}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    print(way, found, file=sys.stderr, flush=True)  # not lost if the rest is cut off
    return found


def _middle(records: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the median process's record, or an error if any failed."""
    for each in records:
        if "error" in each:
            return each
    return sorted(records, key=lambda each: each["row"])[(len(records) - 1) // 2]


def _row(way: str, found: dict[str, dict[str, Any]]) -> tuple[str, ...]:
    from benchmarks.common import verdict

    one, (other, bound) = found[way], WAYS[way]
    if "error" in one:
        return (way, "-", "-", "-", "-", "-", "-", one["error"])
    base = found.get(other, {})
    ratio = one["row"] / base["row"] if "row" in base else None
    wanted = next((each["bits"] for each in found.values() if "bits" in each), "")
    return (
        way,
        f"{one['row']:.3f}",
        f"{one['alone']:.3f}",
        "-" if ratio is None else f"{ratio:.3f}",
        "-" if bound is None else f"{bound:.2f}",
        f"{one['peak']:.3f}",
        "same" if one["bits"] == wanted else "other",
        "-" if ratio is None or bound is None else verdict(ratio, bound),
    )


def main() -> None:
    """Measure the requested ways, or one of them in a child process."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ways", default=";".join(WAYS), help="some of them, between semicolons")
    parser.add_argument("--seconds", type=float, default=200, help="at most, for one way")
    parser.add_argument("--rounds", type=int, default=1, help="processes of each way, in turn")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--here", metavar="WAY", help="one, in this process")
    options = parser.parse_args()
    if options.here:
        measure_here(options.here)
        return
    ways = options.ways.split(";")
    if options.rounds < 1:
        parser.error("--rounds takes a number from 1")
    if unknown := [way for way in ways if way not in WAYS]:
        parser.error(f"no ways: {'; '.join(unknown)}. There are: {'; '.join(WAYS)}")
    rounds = [
        {way: measure_apart(way, options.seconds) for way in ways} for _ in range(options.rounds)
    ]
    found = {way: _middle([each[way] for each in rounds]) for way in ways}
    from benchmarks.common import machine, show

    columns = ("way", "ms in a row", "ms alone", "ratio", "bound", "peak GiB", "bits", "kept")
    record = {"machine": machine(), "records": found}
    rows = (_row(way, found) for way in ways)
    show("A token of a decoder", columns, rows, record, as_json=options.json)


if __name__ == "__main__":
    main()
