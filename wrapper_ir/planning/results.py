"""Checks of what library ops return, where nothing guarantees it.

A program declares the layout of every result, and kernels, views and plans rely on it. A result
whose op has a meta function of torch's that says the same needs no check. For all others, which
custom ops and fake kernels of their own may contradict, a check follows the call.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from wrapper_ir.lines.args import BufferValue, ResultBuffer
from wrapper_ir.lines.effects import effects
from wrapper_ir.lines.layout import LayoutKind
from wrapper_ir.lines.program import PACKING_OPS
from wrapper_ir.lines.symbols import AssertLayout
from wrapper_ir.lines.traits import binds, calls_op, checks_layout, ends
from wrapper_ir.lines.walk import map_regions, walk, walk_regions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from wrapper_ir.lines.control import Region
    from wrapper_ir.lines.kernels import ExternKernel
    from wrapper_ir.lines.program import AnyLine, Program


def check_results(program: Program, is_fixed: Callable[[ExternKernel], bool]) -> Program:
    """Insert checks of library ops' results, each where all sizes of the result are known.

    Args:
        program: The program.
        is_fixed: Returns whether a call certainly returns what its line declares.

    Returns:
        The program; the same object if there is nothing to insert.
    """
    needed = _needed(program)

    def checked(region: Region) -> Region:
        body = tuple(_checked(program, region.body, needed, is_fixed))
        body = tuple(map_regions(line, checked) for line in body)
        return region if body == region.body else dataclasses.replace(region, body=body)

    body = checked(program.region).body
    return program if body == program.body else program.replace(body=body)


def _needed(program: Program) -> set[str]:
    """Return the buffers that something depends on: lines other than frees, and results."""
    needed: set[str] = set()
    for _, line in walk(program):
        if not ends(line):
            found = effects(line)
            needed.update(found.touched, found.peeks)
    for _, _, region in walk_regions(program):
        needed.update(v.buffer for v in region.results if isinstance(v, BufferValue))
    return needed


def _checked(
    program: Program,
    body: Sequence[AnyLine],
    needed: set[str],
    is_fixed: Callable[[ExternKernel], bool],
) -> Iterator[AnyLine]:
    coming = {symbol for line in body for symbol in effects(line).defines_symbols}
    pending: dict[str, ExternKernel] = {}
    for position, line in enumerate(body):
        yield line
        found = effects(line)
        coming.difference_update(found.defines_symbols)
        for name in found.kills:
            pending.pop(name, None)
        if calls_op(line):
            names = _unchecked(program, line, needed, body[position + 1 :])
            if names and not is_fixed(line):
                pending.update(dict.fromkeys(names, line))
        for name in [n for n in pending if not program.layout(n).symbols & coming]:
            maker = pending.pop(name)
            yield AssertLayout(name, maker.op, origin=maker.origin)


def _unchecked(
    program: Program, line: ExternKernel, needed: set[str], rest: Sequence[AnyLine]
) -> list[str]:
    """Return the results of a call that something depends on and that no line checks."""
    if line.op in PACKING_OPS:
        return []
    names = [r.out for r in line.results if isinstance(r, ResultBuffer) and r.out in needed]
    return [
        name
        for name in names
        if program.layout(name).kind is LayoutKind.STRIDED and not _is_checked(name, rest)
    ]


def _is_checked(name: str, rest: Iterable[AnyLine]) -> bool:
    """Return whether a buffer's layout is checked before anything else depends on it."""
    for line in rest:
        if checks_layout(line) and line.buffer == name:
            return True
        if name in effects(line).touched and not binds(line):
            return False
    return False
