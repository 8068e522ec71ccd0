"""Time first calls on a GPU at realistic sizes: with empty caches, and in a second process.

    python benchmarks/first_call.py                    # every model, every way
    python benchmarks/first_call.py --models llama,unet --ways inductor,ours --phases

Every compilation runs in a fresh process. The clock runs from the call of ``torch.compile``, with
the model on the GPU, until the first training step is done. In C++ it stops at the first result,
because stock's ``cpp_wrapper`` fails in backward graphs (torch 2.11). Each way gets an empty cache
directory and runs these steps in it, one after the other:

    machine  a model of one line. It pays the one-time costs of a machine.
    cold     each model, its kernels never compiled before
    warm     each model again, in second processes; the one of median length counts

"inductor again" is the control.

``--phases`` prints the time of each phase by torch's own timers (``dynamo_timed``); ours are
called ``wrapper_ir.*``. With TORCH_TRACE in the environment they show up in tlparse's timeline.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional

if TYPE_CHECKING:
    from collections.abc import Callable

#: How each way compiles, and the way its first calls are compared with.
WAYS: dict[str, tuple[dict[str, Any], str]] = {
    "inductor": ({"backend": "inductor"}, ""),
    "inductor again": ({"backend": "inductor"}, "inductor"),
    "cpp_wrapper": ({"backend": "inductor", "options": {"cpp_wrapper": True}}, ""),
    "ours": ({"backend": "wrapper_ir"}, "inductor"),
    "ours C++": (
        {"backend": "wrapper_ir", "options": {"emitter": "cpp", "build": "background"}},
        "cpp_wrapper",
    ),
    "ours C++ waited": (
        {"backend": "wrapper_ir", "options": {"emitter": "cpp", "build": "wait"}},
        "cpp_wrapper",
    ),
}

IN_CPP = ("cpp_wrapper", "ours C++", "ours C++ waited")

#: The largest ratios allowed.
BOUNDS = {
    ("ours", "machine"): 1.5,
    ("ours", "cold"): 1.1,
    ("ours C++", "cold"): 1.0,
    ("ours", "warm"): 1.0,
    ("ours C++", "warm"): 1.0,
}

HALF = torch.bfloat16


class Block(nn.Module):
    """One block of a decoder of Llama 3.2 1B's shape."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.between = nn.RMSNorm(2048), nn.RMSNorm(2048)
        self.q, self.kv = nn.Linear(2048, 2048, bias=False), nn.Linear(2048, 1024, bias=False)
        self.out = nn.Linear(2048, 2048, bias=False)
        self.up, self.gate = (nn.Linear(2048, 8192, bias=False) for _ in range(2))
        self.down = nn.Linear(8192, 2048, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return ``[batch, length, 2048]`` in the input's dtype."""
        batch, length, _ = x.shape
        y = self.before(x)
        q = self.q(y).view(batch, length, 32, 64).transpose(1, 2)
        k, v = self.kv(y).view(batch, length, 2, 8, 64).unbind(2)
        k, v = (each.transpose(1, 2).repeat_interleave(4, 1) for each in (k, v))
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, 2048))
        y = self.between(x)
        found: Tensor = x + self.down(functional.silu(self.gate(y)) * self.up(y))
        return found


class Decoder(nn.Module):
    """Four blocks with embedding and loss."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(32000, 2048)
        self.blocks = nn.ModuleList(Block() for _ in range(4))
        self.norm, self.head = nn.RMSNorm(2048), nn.Linear(2048, 32000, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the loss of a batch of tokens."""
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x)).float()
        return functional.cross_entropy(logits.flatten(0, 1), tokens.flatten())


class Residual(nn.Module):
    """Two convolutions with a residual connection."""

    def __init__(self, taken: int, given: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.GroupNorm(8, taken), nn.GroupNorm(8, given)])
        self.convs = nn.ModuleList(
            [nn.Conv2d(taken, given, 3, padding=1), nn.Conv2d(given, given, 3, padding=1)]
        )
        self.past = nn.Conv2d(taken, given, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Return ``[batch, given, height, width]``."""
        y = x
        for norm, conv in zip(self.norms, self.convs, strict=True):
            y = conv(functional.silu(norm(y)))
        found: Tensor = y + self.past(x)
        return found


class UNet(nn.Module):
    """Three steps down and up again, with skip connections at each size."""

    def __init__(self) -> None:
        super().__init__()
        widths = (64, 128, 256, 512)
        self.first = nn.Conv2d(4, 64, 3, padding=1)
        pairs = list(itertools.pairwise(widths))
        self.down = nn.ModuleList(Residual(a, b) for a, b in pairs)
        self.up = nn.ModuleList(Residual(2 * b, a) for a, b in reversed(pairs))
        self.last = nn.Conv2d(64, 4, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        """Return the mean square of ``[batch, 4, height, width]``."""
        x, kept = self.first(x), []
        for each in self.down:
            x = functional.avg_pool2d(each(x), 2)
            kept.append(x)
        for each in self.up:
            x = functional.interpolate(each(torch.cat([x, kept.pop()], 1)), scale_factor=2.0)
        found: Tensor = self.last(x).square().mean()
        return found


def _decoder() -> Callable[[], Tensor]:
    module, tokens = Decoder().to(HALF), torch.randint(0, 32000, (4, 1024))
    return _step(module, tokens)


def _unet() -> Callable[[], Tensor]:
    return _step(UNet(), torch.randn(8, 4, 64, 64))


def _norms() -> Callable[[], Tensor]:
    layers = (nn.LayerNorm(4096), nn.Linear(4096, 4096), nn.RMSNorm(4096), nn.GELU())
    module = nn.Sequential(*layers).to("cuda", HALF)
    return _step(lambda x: module(x).float().square().mean(), torch.randn(8192, 4096, dtype=HALF))


def _resnet() -> Callable[[], Tensor]:
    import torchvision  # type: ignore[import-not-found]  # of who has it

    module = torchvision.models.resnet50().to("cuda", memory_format=torch.channels_last)
    x = torch.randn(64, 3, 224, 224).to(memory_format=torch.channels_last)
    return _step(lambda x: module(x).square().mean(), x)


def _float8() -> Callable[[], Tensor]:
    limit = torch.finfo(torch.float8_e4m3fn).max

    def quantised(x: Tensor) -> tuple[Tensor, Tensor]:
        scale = limit / x.abs().amax().float().clamp(min=1e-12)
        return (x.float() * scale).clamp(-limit, limit).to(torch.float8_e4m3fn), 1 / scale

    weight, of_weight = quantised(torch.randn(4096, 4096, dtype=HALF, device="cuda"))

    def linear(x: Tensor) -> Tensor:
        narrow, of_x = quantised(x)
        product = torch._scaled_mm(narrow, weight.t(), of_x, of_weight, out_dtype=HALF)
        return functional.gelu(product)

    return _step(linear, torch.randn(4096, 4096, dtype=HALF))


def _line() -> Callable[[], Tensor]:
    return _step(lambda x: functional.softplus(x).sum(), torch.randn(33, requires_grad=True))


#: Functions that return a step to compile: a training step, except for the float8 product.
MODELS = {
    "machine": _line,
    "norms": _norms,
    "float8": _float8,
    "llama": _decoder,
    "unet": _unet,
    "resnet": _resnet,
}

_way: dict[str, Any] = {}
_trains = True


def _step(module: Callable[..., Tensor], *args: Tensor) -> Callable[[], Tensor]:
    if isinstance(module, nn.Module):
        module.to("cuda")
    on_gpu = [each.detach().to("cuda").requires_grad_(each.requires_grad) for each in args]

    def step() -> Tensor:
        run = torch.compile(module, **_way)
        if not _trains:
            with torch.no_grad():
                return run(*on_gpu)
        loss = run(*on_gpu)
        if loss.requires_grad:
            torch.autograd.backward(loss)
        return loss

    return step


def compile_here(way: str, model: str) -> None:
    """Compile a model in this process and print a record as JSON."""
    from torch._dynamo.utils import compilation_time_metrics

    global _trains
    _way.update(WAYS[way][0])
    _trains = way not in IN_CPP
    torch.manual_seed(0)
    step = MODELS[model]()
    torch.cuda.synchronize()
    start = time.perf_counter()
    step()
    torch.cuda.synchronize()
    seconds = time.perf_counter() - start
    phases = {name: sum(each) for name, each in compilation_time_metrics.items()}
    print(json.dumps({"seconds": seconds, "phases": phases}))


def compile_apart(way: str, model: str, caches: Path, seconds: float) -> dict[str, Any]:
    """Compile a model in a fresh process with the given caches; return the record or an error."""
    environment = {
        **os.environ,
        "TORCHINDUCTOR_CACHE_DIR": str(caches / "inductor"),
        "TRITON_CACHE_DIR": str(caches / "triton"),
        "WRAPPER_IR_CACHE_DIR": str(caches / "wrapper_ir"),
    }
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-m", "benchmarks.first_call", "--here", way, model]
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False, timeout=seconds
        )
    except subprocess.TimeoutExpired:
        return {"error": f"more than {seconds:.0f} s"}
    if done.returncode:
        return {"error": done.stderr[-600:]}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def run(options: argparse.Namespace) -> dict[str, dict[tuple[str, str], dict[str, Any]]]:
    """Return a record of each way for each cache state and model.

    Second processes take turns, and the one of median length stands for each way.
    """
    models, ways = options.models.split(","), options.ways.split(",")
    with tempfile.TemporaryDirectory(prefix="wrapper_ir-first-call-") as root:

        def apart(way: str, model: str) -> dict[str, Any]:
            return compile_apart(way, model, Path(root) / way.replace(" ", "-"), options.seconds)

        found = {}
        for way in ways:
            found[way] = {("machine", ""): apart(way, "machine")}
            found[way] |= {("cold", model): apart(way, model) for model in models}
        for model in models:
            rounds = [{way: apart(way, model) for way in ways} for _ in range(options.rounds)]
            for way in ways:
                records = sorted((each[way] for each in rounds), key=_length)
                found[way]["warm", model] = records[len(records) // 2]
        return found


def _length(record: dict[str, Any]) -> float:
    return float(record.get("seconds", "inf"))


def _row(
    way: str, key: tuple[str, str], found: dict[str, Any], other: dict[str, Any]
) -> tuple[str, ...]:
    from benchmarks.common import verdict

    bound = BOUNDS.get((way, key[0]))
    if "error" in found:
        return (*key, way, "-", "-", "-", found["error"].strip().splitlines()[-1][:60])
    ratio = found["seconds"] / other["seconds"] if "seconds" in other else None
    return (
        *key,
        way,
        f"{found['seconds']:.1f}",
        "-" if ratio is None else f"{ratio:.2f}",
        "-" if bound is None else f"{bound:.1f}",
        "-" if ratio is None or bound is None else verdict(ratio, bound),
    )


def main() -> None:
    """Run every way, or one compilation in a child process."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", default="norms,llama,unet", help="of " + ", ".join(MODELS))
    parser.add_argument("--ways", default=",".join(WAYS), help="of " + ", ".join(WAYS))
    parser.add_argument("--seconds", type=float, default=200, help="at most, for one compilation")
    parser.add_argument("--rounds", type=int, default=3, help="second processes of each way")
    parser.add_argument("--phases", action="store_true", help="show where the seconds went")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--here", nargs=2, metavar=("WAY", "MODEL"), help="one, in this process")
    options = parser.parse_args()
    if options.here:
        compile_here(*options.here)
        return
    ways, found = options.ways.split(","), run(options)
    from benchmarks.common import machine, show

    rows = [
        _row(way, key, found[way][key], found.get(WAYS[way][1], {}).get(key, {}))
        for key in found[ways[0]]
        for way in ways
    ]
    record = {
        "machine": machine(),
        "records": [[way, *key, each] for way in ways for key, each in found[way].items()],
    }
    columns = ("caches", "model", "way", "s", "ratio", "bound", "kept")
    show("First calls", columns, rows, record, as_json=options.json)
    if options.phases:
        for way, *key, each in record["records"]:
            longest = sorted(each.get("phases", {}).items(), key=lambda pair: -pair[1])[:14]
            print(way, *key, *(f"{name} {seconds:.2f}" for name, seconds in longest), sep=" | ")


if __name__ == "__main__":
    main()
