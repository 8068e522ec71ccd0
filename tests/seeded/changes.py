"""Programs with one fault put in, of the kinds that compilers make."""

from __future__ import annotations

import dataclasses
import itertools
import random
from typing import TYPE_CHECKING

from wrapper_ir.lines import (
    AnyLine,
    BufferArg,
    BufferValue,
    ExternKernel,
    Free,
    KernelCall,
    Program,
    RecordEvent,
    Reuse,
    WaitEvent,
    effects,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Change = Callable[[Program], Iterator[tuple[str, Program]]]


def dropped_calls(program: Program) -> Iterator[tuple[str, Program]]:
    """A clone, a copy or another call that defines no name is left out."""
    for index, line in enumerate(program.body):
        if _is_call(line) and not effects(line).defines:
            yield f"without line {index}", _with(program, index, index + 1)


def swapped_calls(program: Program) -> Iterator[tuple[str, Program]]:
    """Two calls that follow each other change places."""
    calls = [index for index, line in enumerate(program.body) if _is_call(line)]
    for one, other in itertools.pairwise(calls):
        body = list(program.body)
        body[one], body[other] = body[other], body[one]
        yield f"lines {one} and {other} swapped", program.replace(body=tuple(body))


def other_results(program: Program) -> Iterator[tuple[str, Program]]:
    """A result is an input, or another buffer of its layout, in place of its own memory."""
    for position, value in enumerate(program.results):
        if isinstance(value, BufferValue):
            for name in _alike(program, value.buffer):
                results = list(program.results)
                results[position] = BufferValue(name)
                changed = program.replace(results=tuple(results))
                yield f"result {position} is %{name}", changed


def older_arguments(program: Program) -> Iterator[tuple[str, Program]]:
    """A call reads another buffer of the same layout, such as an older version of a value."""
    for index, line in enumerate(program.body):
        if not isinstance(line, KernelCall | ExternKernel):
            continue
        found = effects(line)
        for position, arg in enumerate(line.args):
            if not isinstance(arg, BufferArg) or arg.buffer in found.writes:
                continue
            for name in _alike(program, arg.buffer):
                if name not in found.written:
                    args = list(line.args)
                    args[position] = dataclasses.replace(arg, buffer=name)
                    changed = dataclasses.replace(line, args=tuple(args))
                    what = f"%{name} for %{arg.buffer} in line {index}"
                    yield what, _with(program, index, index + 1, changed)


def early_ends(program: Program) -> Iterator[tuple[str, Program]]:
    """Memory is freed, or used again, before the last line that uses it."""
    for index, line in enumerate(program.body):
        if not isinstance(line, Free | Reuse):
            continue
        taken = effects(line).takes
        for before in range(index - 1, -1, -1):
            if not set(effects(program.body[before]).touched).isdisjoint(taken):
                body = list(program.body)
                body.insert(before, body.pop(index))
                yield f"line {index} before line {before}", program.replace(body=tuple(body))
                break


def dropped_order(program: Program) -> Iterator[tuple[str, Program]]:
    """A stream does not wait for an event, or the event is not recorded."""
    for index, line in enumerate(program.body):
        if isinstance(line, WaitEvent | RecordEvent):
            yield f"without line {index}", _with(program, index, index + 1)


CHANGES: dict[str, Change] = {
    "call left out": dropped_calls,
    "calls swapped": swapped_calls,
    "other result": other_results,
    "older argument": older_arguments,
    "memory ended early": early_ends,
}

#: The kind of fault that programs with streams get.
NO_ORDER = "wait or event left out"


def some(program: Program, change: Change, most: int, seed: str) -> list[tuple[str, Program]]:
    """At most so many changes of a kind, drawn."""
    found = list(change(program))
    return random.Random(seed).sample(found, min(most, len(found)))


def _is_call(line: AnyLine) -> bool:
    return isinstance(line, KernelCall | ExternKernel)


def _with(program: Program, start: int, end: int, *lines: AnyLine) -> Program:
    return program.replace(body=(*program.body[:start], *lines, *program.body[end:]))


def _alike(program: Program, name: str) -> Iterator[str]:
    layout = program.buffers[name]
    return (each for each, other in program.buffers.items() if each != name and other == layout)
