"""One program in every way there is to run it, and what must be the same afterwards."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

import wrapper_ir as wir
from tests.fuzz import objects
from tests.interpreter.support import bits, copies, same
from wrapper_ir.lines import BufferInput, Program, Stage
from wrapper_ir.runtime.probes import Hooked, ProbeEvent

Run = Callable[..., tuple[Any, ...]]


@dataclass(frozen=True)
class Outcome:
    """What a run gave: results, all that it may write to, what probes saw; or how it failed."""

    results: tuple[Any, ...] = ()
    sharing: tuple[int, ...] = ()
    inputs: tuple[Any, ...] = ()
    constants: tuple[Any, ...] = ()
    seen: tuple[Any, ...] = ()
    error: str = ""


#: Plans of a program's memory: the strategy, and how long arenas last.
PLANS: dict[str, tuple[str, str]] = {
    "reuse": ("reuse", "call"),
    "none": ("none", "call"),
    "pool": ("pool", "call"),
    "kept": ("pool", "kept"),
}


def planned(program: Program, plan: str) -> Program:
    """A program with its memory planned in one of the ways; planned ones stay as they are."""
    strategy, arena = PLANS[plan]
    return wir.plan_memory(program, strategy, arena=arena)


def interpreted(program: Program) -> Run:
    return lambda *inputs: wir.interpret(program, *inputs)


def emitted(program: Program, target: str, plan: str) -> Run:
    """A planned program through an emitter."""
    return wir.compile(program, target, debug="off", **options(target, plan))


def options(target: str, plan: str) -> dict[str, Any]:
    """What an emitter has to be told of a plan, and what saves time."""
    if target == "fx":
        return {"values": plan == "reuse"}
    arena = PLANS[plan][1]
    return {} if arena == "call" else {"arena": arena}


def _way(target: str, plan: str) -> Callable[[Program], Run]:
    if target == "interpreter":
        return lambda p: interpreted(planned(p, plan))
    return lambda p: emitted(planned(p, plan), target, plan)


#: Ways to run a program: its name, and what makes a function of the program.
WAYS: dict[str, Callable[[Program], Run]] = {
    f"{target}, {plan}": _way(target, plan)
    for target in ("interpreter", "python", "fx", "cpp")
    for plan in PLANS
}

#: Those that take milliseconds.
FAST = (
    *("interpreter, pool", "fx, reuse"),
    *("python, reuse", "python, none", "python, pool", "python, kept"),
)


def run(program: Program, make: Callable[[Program], Run], inputs: Sequence[Any]) -> list[Outcome]:
    """Two calls, each with fresh inputs: what is kept from the first must not show in the second.

    Constants that the program changes stay changed.
    """
    data = dict(zip(program.data, _copies(program.data.values()), strict=True))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        function = make(program.replace(data=data))
        return [_call(program, function, _copies(inputs), data) for _ in range(2)]


def _call(program: Program, function: Run, inputs: list[Any], data: dict[str, Tensor]) -> Outcome:
    torch.manual_seed(11)
    given = list(inputs)
    seen: list[Any] = []
    try:
        results = Hooked(function, lambda event: seen.append(_noted(event)))(*given)
    except Exception as error:
        return Outcome(error=f"{type(error).__name__}: {str(error)[:2000]}")
    kept = [
        value
        for item, value in zip(program.inputs, inputs, strict=True)
        if not (isinstance(item, BufferInput) and item.donated)
    ]
    kept = [part for value in kept for part in objects.state_of(value)]
    constants = [part for value in data.values() for part in objects.state_of(value)]
    everything = [*results, *kept, *constants]
    return Outcome(
        tuple(_copied(r) for r in results),
        tuple(_sharing(everything)),
        tuple(copies(kept)),
        tuple(copies(constants)),
        tuple(seen),
    )


def _copies(values: Iterable[Any]) -> list[Any]:
    """Copies of inputs or constants, objects included."""
    return [objects.copied(value) for value in copies(values)]


def _noted(event: ProbeEvent) -> Any:
    """What a probe shows, by value."""
    tensors = [
        (name, str(t.dtype), tuple(t.shape), bits(t).numpy().tobytes())
        for name, t in event.tensors.items()
    ]
    return (event.call, event.when, tensors, repr(event.scalars))


def _copied(value: Any) -> Any:
    if not isinstance(value, Tensor):
        return value
    made = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype)
    if any(s == 0 and n > 1 for s, n in zip(value.stride(), value.shape, strict=True)):
        return value.clone()
    return made.copy_(value)


def _sharing(values: list[Any]) -> list[int]:
    """For each value the first one that lies in the same memory; one without elements is alone."""
    keys = [
        v.untyped_storage().data_ptr() if isinstance(v, Tensor) and v.numel() else None
        for v in values
    ]
    return [n if key is None else keys.index(key) for n, key in enumerate(keys)]


def difference(program: Program, inputs: Sequence[Any], ways: Sequence[str]) -> str:
    """How a way to run a program differs from the interpreter, in words; nothing if none does."""
    try:
        wir.verify(program)
    except wir.VerificationError as error:
        return f"verifier: {error.diagnostics[0].code} {error.diagnostics[0].message}"
    expected = run(program, interpreted, inputs)
    for outcome in expected:
        if outcome.error:
            return f"interpreter: {outcome.error}"
    for way in ways:
        try:
            found = run(program, WAYS[way], inputs)
        except Exception as error:
            return f"{way}: cannot be made: {type(error).__name__}: {str(error)[:2000]}"
        words = compare(program, found, expected)
        if words:
            return f"{way}: {words}"
    return ""


def compare(program: Program, found: list[Outcome], expected: list[Outcome]) -> str:
    """How the calls of one way differ from those of the interpreter."""
    pooled = program.stage is Stage.LOGICAL or _has_pool(program)
    for number, (one, other) in enumerate(zip(found, expected, strict=True)):
        words = _compare(one, other, pooled=pooled)
        if words:
            return f"call {number}: {words}"
    return ""


def _has_pool(program: Program) -> bool:
    return any(line.mnemonic == "allocate_pool" for line in program.body)


def _compare(ours: Outcome, theirs: Outcome, *, pooled: bool) -> str:
    if ours.error:
        return ours.error
    for field in dataclasses.fields(Outcome):
        one, other = getattr(ours, field.name), getattr(theirs, field.name)
        if field.name == "sharing":
            # Results that are slices of one pool lie in one memory and share no byte.
            if not pooled and one != other:
                return f"memory is shared as {one}, not {other}"
        elif field.name != "error":
            if len(one) != len(other):
                return f"{field.name}: there are {len(one)}, not {len(other)}"
            for position, (a, b) in enumerate(zip(one, other, strict=True)):
                if not same(a, b):
                    return f"{field.name}[{position}]: {_shown(a)}, not {_shown(b)}"
    return ""


def _shown(value: Any) -> str:
    if isinstance(value, Tensor):
        return (
            f"{value.dtype} {tuple(value.shape)} {value.stride()} {value.flatten().tolist()[:12]}"
        )
    return repr(value)
