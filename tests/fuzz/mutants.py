"""Good programs with one thing changed: most are wrong, some are other programs."""

from __future__ import annotations

import dataclasses
import random
from typing import TYPE_CHECKING

from wrapper_ir.lines import (
    BufferArg,
    Comment,
    DType,
    ExternKernel,
    KernelCall,
    KernelDefinition,
    Layout,
    ObjectArg,
    ObjectInput,
    Program,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Another element type of the same size.
_OTHER = {
    DType.FLOAT32: DType.INT32,
    DType.INT32: DType.FLOAT32,
    DType.FLOAT64: DType.INT64,
    DType.INT64: DType.FLOAT64,
    DType.UINT8: DType.BOOL,
    DType.BOOL: DType.UINT8,
}


def mutants(program: Program, seed: int) -> Iterator[tuple[str, Program]]:
    """Changed programs, each with what was done: a few of every kind."""
    chance = random.Random(seed)
    body = program.body
    real = [n for n, line in enumerate(body) if not isinstance(line, (KernelDefinition, Comment))]
    for n in _some(chance, real):
        yield "drop", program.replace(body=(*body[:n], *body[n + 1 :]))
    for n in _some(chance, real):
        yield "duplicate", program.replace(body=(*body[: n + 1], *body[n:]))
    for n in _some(chance, real[:-1]):
        yield "swap", program.replace(body=(*body[:n], body[n + 1], body[n], *body[n + 2 :]))
    for n in _some(chance, real):
        changed = _retargeted(chance, program, n)
        if changed is not None:
            yield "retarget", changed
    for name in _some(chance, [n for n, at in program.buffers.items() if _is_long(at)]):
        layout = program.layout(name)
        size = (*layout.size[:-1], layout.size[-1] - 1)
        yield "resize", _with_layout(program, name, dataclasses.replace(layout, size=size))
        if layout.dtype in _OTHER:
            other = dataclasses.replace(layout, dtype=_OTHER[layout.dtype])
            yield "re-dtype", _with_layout(program, name, other)


def _some(chance: random.Random, items: list[object]) -> list[object]:
    return chance.sample(items, min(4, len(items)))


def _is_long(layout: Layout) -> bool:
    return bool(layout.rank) and isinstance(layout.size[-1], int) and layout.size[-1] > 1


def _with_layout(program: Program, name: str, layout: Layout) -> Program:
    return program.replace(buffers=program.buffers.set(**{name: layout}))


def _retargeted(chance: random.Random, program: Program, index: int) -> Program | None:
    """A call with another buffer of the same layout, or another object, as an argument."""
    line = program.body[index]
    if not isinstance(line, (KernelCall, ExternKernel)):
        return None
    places = [n for n, arg in enumerate(line.args) if isinstance(arg, (BufferArg, ObjectArg))]
    if not places:
        return None
    place = chance.choice(places)
    args = list(line.args)
    arg = args[place]
    if isinstance(arg, ObjectArg):
        others = [name for name in _objects(program) if name != arg.object]
        args[place] = ObjectArg(chance.choice(others or ["nowhere"]))
    elif isinstance(arg, BufferArg):
        layout = program.layout(arg.buffer)
        others = [n for n, at in program.buffers.items() if at == layout and n != arg.buffer]
        if not others:
            return None
        args[place] = dataclasses.replace(arg, buffer=chance.choice(others))
    changed = dataclasses.replace(line, args=tuple(args))
    return program.replace(body=(*program.body[:index], changed, *program.body[index + 1 :]))


def _objects(program: Program) -> list[str]:
    given = [item.object for item in program.inputs if isinstance(item, ObjectInput)]
    return [*given, *program.objects]
