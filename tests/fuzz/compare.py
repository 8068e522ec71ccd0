"""One program in every way there is to run it, and what must be the same afterwards."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

import wrapper_ir as wir
from tests.interpreter.support import copies, same
from wrapper_ir.lines import BufferInput, Program, Stage

Run = Callable[..., tuple[Any, ...]]


@dataclass(frozen=True)
class Outcome:
    """What a run gave: results and all that it may write to; or how it failed."""

    results: tuple[Any, ...] = ()
    sharing: tuple[int, ...] = ()
    inputs: tuple[Any, ...] = ()
    constants: tuple[Any, ...] = ()
    error: str = ""


#: Ways to run a program: its name, and what makes a function of the program.
FAST: dict[str, Callable[[Program], Run]] = {
    "interpreter, planned": lambda p: _interpreted(wir.plan_memory(p, "pool")),
    "python": lambda p: wir.compile(wir.plan_memory(p, "reuse"), debug="off"),
    "python, no plan": lambda p: wir.compile(wir.plan_memory(p, "none"), debug="off"),
    "python, pool": lambda p: wir.compile(wir.plan_memory(p, "pool"), debug="off"),
    "python, kept": lambda p: wir.compile(
        wir.plan_memory(p, arena="kept"), arena="kept", debug="off"
    ),
    "fx": lambda p: wir.compile(wir.plan_memory(p, "reuse"), "fx", debug="off"),
}
SLOW: dict[str, Callable[[Program], Run]] = {
    "cpp": lambda p: wir.compile(wir.plan_memory(p, "reuse"), "cpp", debug="off"),
    "cpp, kept": lambda p: wir.compile(
        wir.plan_memory(p, arena="kept"), "cpp", arena="kept", debug="off"
    ),
}
WAYS = {**FAST, **SLOW}


def _interpreted(program: Program) -> Run:
    return lambda *inputs: wir.interpret(program, *inputs)


def run(program: Program, make: Callable[[Program], Run], inputs: Sequence[Any]) -> list[Outcome]:
    """Two calls, each with fresh inputs: what is kept from the first must not show in the second.

    Constants that the program changes stay changed.
    """
    data = dict(zip(program.data, copies(program.data.values()), strict=True))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        function = make(program.replace(data=data))
        return [_call(program, function, copies(inputs), data) for _ in range(2)]


def _call(program: Program, function: Run, inputs: list[Any], data: dict[str, Tensor]) -> Outcome:
    torch.manual_seed(11)
    given = list(inputs)
    try:
        results = function(*given)
    except Exception as error:
        return Outcome(error=f"{type(error).__name__}: {str(error)[:2000]}")
    kept = [
        value
        for item, value in zip(program.inputs, inputs, strict=True)
        if not (isinstance(item, BufferInput) and item.donated)
    ]
    everything = [*results, *kept, *data.values()]
    return Outcome(
        tuple(_copied(r) for r in results),
        tuple(_sharing(everything)),
        tuple(copies(kept)),
        tuple(copies(data.values())),
    )


def _copied(value: Any) -> Any:
    if not isinstance(value, Tensor):
        return value
    made = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype)
    if any(s == 0 and n > 1 for s, n in zip(value.stride(), value.shape, strict=True)):
        return value.clone()
    return made.copy_(value)


def _sharing(values: list[Any]) -> list[int]:
    """For each value the first one that lies in the same memory."""
    keys = [
        (
            v.untyped_storage().data_ptr()
            if isinstance(v, Tensor) and v.untyped_storage().nbytes()
            else None
        )
        for v in values
    ]
    return [n if key is None else keys.index(key) for n, key in enumerate(keys)]


def difference(program: Program, inputs: Sequence[Any], ways: Sequence[str]) -> str:
    """How a way to run a program differs from the interpreter, in words; nothing if none does."""
    try:
        wir.verify(program)
    except wir.VerificationError as error:
        return f"verifier: {error.diagnostics[0].code} {error.diagnostics[0].message}"
    expected = run(program, _interpreted, inputs)
    for outcome in expected:
        if outcome.error:
            return f"interpreter: {outcome.error}"
    for way in ways:
        try:
            found = run(program, WAYS[way], inputs)
        except Exception as error:
            return f"{way}: cannot be made: {type(error).__name__}: {str(error)[:2000]}"
        for number, (a, b) in enumerate(zip(found, expected, strict=True)):
            words = _compare(a, b, pooled=program.stage is Stage.LOGICAL or _has_pool(program))
            if words:
                return f"{way}: call {number}: {words}"
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
