"""Time what comparing the memory of arguments adds to a call of a compiled function.

A function that writes to an argument compares in each call which arguments share memory, since
Dynamo's guards do not (``frontends/inductor/overlaps.py``). Both sides are the same compiled graph
as Dynamo calls it, AOTAutograd's wrappers included, with and without the comparison.

    python benchmarks/overlaps.py            # the table
    python benchmarks/overlaps.py --json     # the same as JSON
    python benchmarks/overlaps.py --control  # without the comparison on both sides: must say 1.00

One thread, garbage collector off, batches of both sides alternating. "+-" is half the
interquartile range of the rounds' ratios. Functions that write to no argument have no second side:
the script checks that what Dynamo calls is then what Inductor returned.
"""

from __future__ import annotations

import os

# Set before torch is imported, because torch creates its thread pools then.
os.environ["OMP_NUM_THREADS"] = "1"

import argparse
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from benchmarks.common import OURS, CompiledCall, Paired, machine, measure_pair, show, verdict
from wrapper_ir.frontends.inductor import OpByOpWarning, overlaps


@dataclass(frozen=True)
class Subject:
    """A function, its arguments and the largest ratio allowed."""

    name: str
    function: Callable[..., Any]
    make: Callable[[], tuple[Tensor, ...]]
    bound: float | None


def _write(first: Tensor, *others: Tensor) -> Tensor:
    first.add_(1)
    return sum(others, first * 2)


def _write_all(*all_of_them: Tensor) -> None:
    for each in all_of_them:
        each.add_(1)


def _read(first: Tensor, *others: Tensor) -> Tensor:
    return sum(others, first * 2)


def _separate(count: int) -> Callable[[], tuple[Tensor, ...]]:
    return lambda: tuple(torch.zeros(64) for _ in range(count))


def _slices() -> tuple[Tensor, ...]:
    return torch.zeros(64), *torch.zeros(3, 64).unbind()


def _overlapping() -> tuple[Tensor, ...]:
    whole = torch.zeros(65)
    return whole[:-1], whole[1:]


SUBJECTS = (
    Subject("writes 1 of 2", _write, _separate(2), 1.25),
    Subject("writes 1 of 8", _write, _separate(8), 1.35),
    Subject("writes 1 of 4, three of them slices of one tensor", _write, _slices, 1.40),
    Subject("writes 64 of 64", _write_all, _separate(64), 1.50),
    Subject("writes 1 of 2 that overlap", _write, _overlapping, None),
)


def _compiled(function: Callable[..., Any], args: tuple[Tensor, ...]) -> Callable[..., Any]:
    """Return what Dynamo calls for a function."""
    made: list[Callable[..., Any]] = []

    def backend(model: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        made.append(torch._dynamo.lookup_backend(OURS)(model, inputs))
        return made[-1]

    torch._dynamo.reset()
    torch.compile(function, backend=backend, fullgraph=True, dynamic=False)(*args)
    (found,) = made
    return found


def _compares(function: Callable[..., Any]) -> bool:
    code = getattr(function, "__code__", None)
    return code is not None and code.co_filename == overlaps.__file__


def _call(function: Callable[..., Any], args: tuple[Tensor, ...]) -> CompiledCall:
    return CompiledCall(lambda inputs: function(*inputs), list(args), "")


def _measure(subject: Subject, *, control: bool, rounds: int) -> Paired:
    args = subject.make()
    comparing: Any = _compiled(subject.function, args)
    if not _compares(comparing):
        raise SystemExit(f"{subject.name}: nothing is compared")
    plain = comparing.__wrapped__
    sides = (_call(plain, args), _call(plain if control else comparing, args))
    return measure_pair(*sides, rounds=rounds, batch_seconds=0.02)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--control", action="store_true")
    parser.add_argument("--rounds", type=int, default=60)
    args = parser.parse_args()
    warnings.simplefilter("error", OpByOpWarning)
    read: Any = _compiled(_read, _separate(2)())
    if _compares(read):
        raise SystemExit("a function that writes to no argument compares them")
    rows, record = [], []
    for subject in SUBJECTS:
        found = _measure(subject, control=args.control, rounds=args.rounds)
        spread = (found.quartiles[1] - found.quartiles[0]) / 2
        times = f"{found.first * 1e6:.1f}", f"{found.second * 1e6:.1f}"
        ratio = f"{found.ratio:.3f} +- {spread:.3f}"
        rows.append((subject.name, *times, ratio, verdict(found.ratio, subject.bound)))
        record.append({"subject": subject.name, "bound": subject.bound, **vars(found)})
    columns = ("function", "without us", "comparing us", "ratio", "in bounds")
    show("Comparing arguments", columns, rows, {"machine": machine(), "calls": record}, args.json)


if __name__ == "__main__":
    main()
