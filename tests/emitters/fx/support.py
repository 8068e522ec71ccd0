"""Programs with inputs, run by the Python emitter and by a graph: the same to the last bit."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

import wrapper_ir as wir
from tests.emitters import corpus
from tests.emitters.fx.programs import EXTRA
from wrapper_ir.emitters.fx import FxArtifact

if TYPE_CHECKING:
    from collections.abc import Callable

    from wrapper_ir.lines import Program

#: Programs that need an op which this release of torch has not.
ABSENT = () if hasattr(torch.ops.higher_order, "switch") else ("switch",)
NAMES = [name for name in (*corpus.CASES, *EXTRA) if name not in ABSENT]


def program(name: str) -> Program:
    """A program with constants of its own."""
    torch.manual_seed(5)
    found = EXTRA[name].program() if name in EXTRA else corpus.program(name)
    copies: dict[int, Any] = {}
    for value in found.data.values():
        copies.setdefault(id(value), copy(value))
    return found.replace(data={n: copies[id(v)] for n, v in found.data.items()})


def inputs(name: str, seed: int = 0) -> list[Any]:
    """Inputs for a program, other values for another seed."""
    torch.manual_seed(seed)
    case = EXTRA[name] if name in EXTRA else corpus.CASES[name]
    return case.make()


def copy(value: Any) -> Any:
    """A copy of a tensor that begins as far into its storage, with the same strides."""
    if not isinstance(value, Tensor):
        return value
    storage = value.untyped_storage().clone()
    made = torch.empty(0, dtype=value.dtype)
    return made.set_(storage, value.storage_offset(), value.size(), value.stride())


@dataclass
class Run:
    """What a call gave, and what it left behind."""

    results: tuple[Any, ...]
    inputs: list[Any]
    constants: dict[str, Any] = field(default_factory=dict)


def run(function: Callable[..., Any], given: list[Any], data: Any = None) -> Run:
    """Call a function on copies of inputs."""
    mine = [copy(value) for value in given]
    with torch.no_grad():
        results = function(*mine)
    return Run(tuple(results), mine, dict(data or {}))


def differences(ours: Run, theirs: Run) -> list[str]:
    """In words, everything in which two runs differ."""
    found = []
    pairs = {
        "result": (ours.results, theirs.results),
        "input": (ours.inputs, theirs.inputs),
        "constant": ([*ours.constants.values()], [*theirs.constants.values()]),
    }
    for what, (a, b) in pairs.items():
        if len(a) != len(b):
            found.append(f"{len(a)} {what}s, not {len(b)}")
        for n, (x, y) in enumerate(zip(a, b, strict=False)):
            if why := unlike(x, y):
                found.append(f"{what} {n}: {why}")
    return found


def unlike(ours: Any, theirs: Any) -> str:
    """How two values differ, in metadata or in a single bit; empty when they do not."""
    if not isinstance(ours, Tensor) or not isinstance(theirs, Tensor):
        same = type(ours) is type(theirs) and (ours == theirs or ours != ours)
        return "" if same else f"{ours!r}, not {theirs!r}"
    for name in ("dtype", "shape", "device"):
        if getattr(ours, name) != getattr(theirs, name):
            return f"{name} {getattr(ours, name)}, not {getattr(theirs, name)}"
    if ours.stride() != theirs.stride():
        return f"stride {ours.stride()}, not {theirs.stride()}"
    return "" if torch.equal(bits(ours), bits(theirs)) else f"{ours}, not {theirs}"


def bits(value: Tensor) -> Tensor:
    return value.detach().contiguous().flatten().view(torch.uint8)


def expected(name: str, given: list[Any]) -> Run:
    """What the Python emitter's module does."""
    made = program(name)
    return run(wir.compile(made, "python"), given, made.data)


def expected_of(name: str, seed: int) -> Run:
    """What the Python emitter's module does with the inputs of a seed, for the caller to change."""
    found = _expected_of(name, seed)
    return Run(
        tuple(map(copy, found.results)),
        list(map(copy, found.inputs)),
        {name: copy(value) for name, value in found.constants.items()},
    )


@functools.cache
def _expected_of(name: str, seed: int) -> Run:
    return expected(name, inputs(name, seed))


def emitted(made: Program, **options: Any) -> FxArtifact:
    """What the FX emitter makes of a program."""
    found = wir.emit(made, "fx", **options)
    assert isinstance(found, FxArtifact)
    return found


def module(name: str) -> tuple[torch.fx.GraphModule, Program]:
    """A program as a graph module, and the program."""
    made = program(name)
    return emitted(made).graph_module, made
