"""Wrong plans made of right ones, a mutator a kind of mistake."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator

from wrapper_ir.lines import (
    AllocateFromPool,
    AnyLine,
    BufferValue,
    ExternKernel,
    Free,
    KernelCall,
    Layout,
    Program,
    Reuse,
)
from wrapper_ir.lines.effects import effects

Mutator = Callable[[Program], Iterator[Program]]


def _with(program: Program, body: list[AnyLine]) -> Program:
    return program.replace(body=tuple(body))


def free_too_early(program: Program) -> Iterator[Program]:
    """Each free moved before the last line that touches its storage under its own name."""
    for index, line in enumerate(program.body):
        if not isinstance(line, Free):
            continue
        users = [
            n
            for n in range(index)
            if line.buffer in effects(program.body[n], program).touched
            and isinstance(program.body[n], (KernelCall, ExternKernel))
        ]
        if users:
            body = list(program.body)
            del body[index]
            body.insert(users[-1], line)
            yield _with(program, body)


def dropped_free(program: Program) -> Iterator[Program]:
    for index, line in enumerate(program.body):
        if isinstance(line, Free) and line.buffer not in _inputs(program):
            yield _with(program, [*program.body[:index], *program.body[index + 1 :]])


def double_free(program: Program) -> Iterator[Program]:
    for index, line in enumerate(program.body):
        if isinstance(line, Free):
            yield _with(program, [*program.body[: index + 1], *program.body[index:]])


def freed_result(program: Program) -> Iterator[Program]:
    for value in program.results:
        if isinstance(value, BufferValue) and value.buffer not in program.constants:
            yield _with(program, [*program.body, Free(value.buffer)])


def overlapping_slices(program: Program) -> Iterator[Program]:
    """Each slice of a pool moved onto the one before it, where that lives still."""
    slices = [line for line in program.body if isinstance(line, AllocateFromPool)]
    for one, other in itertools.pairwise(slices):
        between = program.body[program.body.index(one) : program.body.index(other)]
        ended = any(one.out in (*e.kills, *e.takes) for e in (effects(x, program) for x in between))
        if one.pool == other.pool and one.offset != other.offset and not ended:
            moved = dataclasses.replace(other, offset=one.offset)
            yield _with(program, [moved if line is other else line for line in program.body])


def slice_out_of_pool(program: Program) -> Iterator[Program]:
    for line in program.body:
        if isinstance(line, AllocateFromPool):
            size = program.layout(line.pool).nbytes
            moved = dataclasses.replace(line, offset=size)
            yield _with(program, [moved if each is line else each for each in program.body])


def use_of_donor(program: Program) -> Iterator[Program]:
    """Each call that reads what reuse made reads the donor instead."""
    for line in program.body:
        if not isinstance(line, Reuse):
            continue
        for index, call in enumerate(program.body):
            if isinstance(call, KernelCall) and line.out in effects(call, program).reads:
                args = tuple(
                    (
                        dataclasses.replace(arg, buffer=line.donor)
                        if getattr(arg, "buffer", None) == line.out
                        else arg
                    )
                    for arg in call.args
                )
                changed = dataclasses.replace(call, args=args)
                yield _with(program, [*program.body[:index], changed, *program.body[index + 1 :]])


def short_layout(program: Program) -> Iterator[Program]:
    """Each buffer that a call writes made smaller than what the call writes."""
    for name, layout in program.buffers.items():
        written = any(
            isinstance(line, KernelCall) and name in effects(line, program).writes
            for line in program.body
        )
        last = layout.size[-1] if layout.rank else 0
        if written and name not in _inputs(program) and isinstance(last, int) and last > 1:
            size = (*layout.size[:-1], last - 1)
            less = Layout(layout.dtype, layout.device, size, layout.stride, layout.offset)
            yield program.replace(buffers=program.buffers.set(**{name: less}))


def wrong_result_layout(program: Program) -> Iterator[Program]:
    """Each result of an op said to be one element longer."""
    for line in program.body:
        if not isinstance(line, ExternKernel):
            continue
        for name in effects(line, program).defines:
            layout = program.layout(name)
            if layout.rank and layout.is_static:
                size = (layout.size[0] + 1, *layout.size[1:])
                more = Layout.contiguous(layout.dtype, size, layout.device)
                yield program.replace(buffers=program.buffers.set(**{name: more}))


def _inputs(program: Program) -> set[str]:
    return {getattr(item, "name", "") for item in program.inputs}


MUTATORS: dict[str, Mutator] = {
    each.__name__: each
    for each in (
        free_too_early,
        dropped_free,
        double_free,
        freed_result,
        overlapping_slices,
        slice_out_of_pool,
        use_of_donor,
        short_layout,
        wrong_result_layout,
    )
}
