"""Time one call of the emitted function against stock Inductor's for the same graph.

Both sides are ``CompiledFxGraph.current_callable``: the wrapper and the kernels it calls, without
Dynamo's guards and AOTAutograd's wrappers. The models are wrapper-bound on purpose, because large
kernels would hide the host code that is measured here.

    python benchmarks/overhead.py                 # the table
    python benchmarks/overhead.py --json          # the same as JSON
    python benchmarks/overhead.py --control       # stock against itself: must say 1.00
    python benchmarks/overhead.py --checks always # one of our settings only

Ours is measured with each setting of the option ``checks``; the bounds are for the default.

One thread (OMP_NUM_THREADS=1), garbage collector off, batches of both sides alternating. "+-" is
half the interquartile range of the rounds' ratios. "same" says whether both sides gave the same
bits. "refuses" counts the inputs that a call refuses when, after successful calls, each in turn is
made too large.
"""

from __future__ import annotations

import os

# Set before torch is imported, because torch creates its thread pools then.
os.environ["OMP_NUM_THREADS"] = "1"

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.common import (
    OURS,
    STOCK,
    CompiledCall,
    Paired,
    compile_graph,
    machine,
    measure_pair,
    show,
    verdict,
)

Made = tuple[Callable[..., Any], tuple[Any, ...]]


@dataclass(frozen=True)
class Subject:
    """A model, its description and the largest ratio allowed."""

    name: str
    make: Callable[[], Made]
    about: str
    bound: float | None = None


def mlp() -> Made:
    """Return eight 64-wide linear layers with ReLU and a softmax at the end, batch 4."""
    layers: list[nn.Module] = []
    for _ in range(8):
        layers += [nn.Linear(64, 64), nn.ReLU()]
    return nn.Sequential(*layers[:-1], nn.Softmax(-1)).eval(), (torch.randn(4, 64),)


def encoder() -> Made:
    """Return torch's own encoder at inference: six layers, each one large library op."""
    layer = nn.TransformerEncoderLayer(64, 4, 256, batch_first=True)
    model = nn.TransformerEncoder(layer, 6, enable_nested_tensor=False).eval()
    return model, (torch.randn(1, 8, 64),)


def tiny_kernels() -> Made:
    """Return thirty one-line kernels, each separated from the next by a cumulative sum.

    On a CPU Inductor puts neighbouring loops into one function, however little they have in
    common; only a library op between two kernels keeps them apart. ``cumsum`` is about as small as
    such ops get.
    """

    def chain(x: Tensor) -> Tensor:
        for _ in range(30):
            x = torch.cumsum(x, 0).sin()
        return x

    return chain, (torch.randn(4, 8),)


def tiny_products() -> Made:
    """Return the same with thirty small matrix products: ops with an ``out``, thirty weights."""

    def chain(x: Tensor, *weights: Tensor) -> Tensor:
        for weight in weights:
            x = (x @ weight).softmax(-1)
        return x

    return chain, (torch.randn(4, 8), *(torch.randn(8, 8) for _ in range(30)))


_library: Any = torch.library.Library("wrapper_ir_overhead", "DEF")
_library.define("twice(Tensor x) -> Tensor")
_library.impl("twice", lambda x: x + x, "CPU")
torch.library.register_fake("wrapper_ir_overhead::twice", torch.empty_like, lib=_library)


def own_ops() -> Made:
    """Return thirty calls of an op that is not torch's, each with a one-line kernel behind it.

    What such an op returns is checked in every call: its fake kernel may say something else.
    """

    def chain(x: Tensor) -> Tensor:
        for _ in range(30):
            x = torch.ops.wrapper_ir_overhead.twice(x).sin()
        return x

    return chain, (torch.randn(4, 8),)


SUBJECTS = (
    Subject("mlp", mlp, "8 x Linear(64, 64), softmax, batch 4", 0.75),
    Subject("encoder", encoder, "6 x TransformerEncoderLayer(64), 8 tokens", 0.92),
    Subject("tiny kernels", tiny_kernels, "30 x (cumsum, then one kernel), 4 x 8", 0.70),
    Subject("own ops", own_ops, "30 x (an op of one's own, then one kernel), 4 x 8"),
    Subject("tiny products", tiny_products, "30 x (8 x 8 product, then softmax)", 0.70),
)


def refusals(call: CompiledCall) -> tuple[int, int]:
    """Count the inputs that a call refuses when each is made too large after successful calls.

    Every tensor in turn gets one row too many (not too few: a function that does not check must not
    read out of bounds). Return the numbers refused and tried.
    """
    call.function(call.inputs.copy())
    call.function(call.inputs.copy())
    refused = tried = 0
    for position, value in enumerate(call.inputs):
        if isinstance(value, Tensor) and value.dim():
            wrong = call.inputs.copy()
            wrong[position] = torch.cat([value, value[:1]])
            tried += 1
            refused += _refuses(call, wrong)
    return refused, tried


def _refuses(call: CompiledCall, inputs: list[Any]) -> bool:
    try:
        call.function(inputs)
    except Exception:  # each side raises its own errors; any of them is a refusal
        return True
    return False


def same(first: CompiledCall, second: CompiledCall) -> bool:
    """Check whether both sides give the same bits."""
    pairs = zip(
        first.function(first.inputs.copy()), second.function(second.inputs.copy()), strict=True
    )
    return all(torch.equal(a, b) for a, b in pairs)


def measure(subject: Subject, variant: str, options: argparse.Namespace) -> dict[str, Any]:
    """Compile one model on both sides and time them against each other."""
    torch.manual_seed(0)
    model, args = subject.make()
    stock = compile_graph(model, args, STOCK)
    ours = stock if variant == CONTROL else compile_graph(model, args, OURS, VARIANTS[variant])
    # torch.compile's guards are absent here: the emitted code itself has to check.
    times: Paired = measure_pair(
        stock, ours, rounds=options.rounds, batch_seconds=options.batch_ms / 1e3
    )
    return {
        "model": subject.name,
        "checks": variant,
        "about": subject.about,
        "stock_us": times.first * 1e6,
        "ours_us": times.second * 1e6,
        "ratio": times.ratio,
        "quartiles": times.quartiles,
        "bound": subject.bound if variant == DEFAULT else None,
        "same_bits": same(stock, ours),
        "stock_refuses": refusals(stock),
        "ours_refuses": refusals(ours),
    }


def row(found: dict[str, Any]) -> tuple[str, ...]:
    """Format one record."""
    low, high = found["quartiles"]
    bound = found["bound"]
    return (
        found["model"],
        found["checks"],
        f"{found['stock_us']:.1f}",
        f"{found['ours_us']:.1f}",
        f"{found['ratio']:.3f}",
        f"{(high - low) / 2:.3f}",
        "-" if bound is None else f"{bound:.2f}",
        verdict(found["ratio"], bound),
        "yes" if found["same_bits"] else "[red]NO[/]",
        "{}/{}".format(*found["stock_refuses"]),
        "{}/{}".format(*found["ours_refuses"]),
    )


#: The name of a control run, in place of a setting of ours.
CONTROL = "stock"

DEFAULT = "default"

#: Our settings by name, as options of the backend.
VARIANTS: dict[str, dict[str, Any]] = {
    DEFAULT: {"emitter": "python"},
    **{name: {"emitter": "python", "checks": name} for name in ("always", "first_call", "never")},
}

COLUMNS = (
    "model",
    "checks",
    "stock us",
    "ours us",
    "ratio",
    "+-",
    "bound",
    "kept",
    "same",
    "stock refuses",
    "we refuse",
)


def main() -> None:
    """Run the requested models."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [subject.name for subject in SUBJECTS]
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"of {names}; default: all")
    parser.add_argument("--rounds", type=int, default=200, help="alternating batches of each side")
    parser.add_argument("--batch-ms", type=float, default=4.0, help="length of a batch")
    parser.add_argument("--checks", choices=list(VARIANTS), help="one of our settings only")
    parser.add_argument("--control", action="store_true", help="stock on both sides")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    variants = [CONTROL] if options.control else [options.checks] if options.checks else VARIANTS
    chosen = [s for s in SUBJECTS if not options.models or s.name in options.models]
    found = [measure(subject, variant, options) for subject in chosen for variant in variants]
    title = "One call of the emitted function" + (" (control)" if options.control else "")
    record = {"machine": machine(), "models": found}
    show(title, COLUMNS, map(row, found), record, as_json=options.json)


if __name__ == "__main__":
    main()
