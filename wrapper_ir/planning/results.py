"""Checks of what library ops return and write, where nothing guarantees it.

A program declares the layout of every result, and kernels, views and plans rely on it. A result
whose op has a meta function of torch's that says the same needs no check. For all others, which
custom ops and fake kernels of their own may contradict, a check follows the call. So it does for
numbers that an op returns, if the program states a range for them.

An op resizes an output buffer that its result does not fit, and then writes past a buffer that is
part of a larger storage. Where it is not certain to fit, one of torch's ops gets memory of its own
instead, which is checked and copied. An op of another library is checked after the call: what it
does with memory that it is given is up to it.
"""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import sympy

from wrapper_ir.analysis.ops import is_torchs
from wrapper_ir.build.draft import range_checks
from wrapper_ir.lines.args import (
    Access,
    BufferArg,
    BufferValue,
    DeviceArg,
    DTypeArg,
    ListArg,
    ResultBuffer,
    ResultSymbol,
    ScalarArg,
    buffers_in,
)
from wrapper_ir.lines.effects import effects
from wrapper_ir.lines.expr import symbol
from wrapper_ir.lines.kernels import ExternKernel, KernelDefinition, TorchOp
from wrapper_ir.lines.layout import Layout, LayoutKind
from wrapper_ir.lines.memory import Free
from wrapper_ir.lines.program import PACKING_OPS, FrozenMap, Stage, SymbolKind
from wrapper_ir.lines.symbols import AssertLayout, AssertSymbol
from wrapper_ir.lines.traits import asserts, binds, calls_op, checks_layout, ends
from wrapper_ir.lines.walk import Renaming, map_regions, walk, walk_regions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from wrapper_ir.lines.control import Region
    from wrapper_ir.lines.program import AnyLine, Program

#: What makes memory of an op's own, which no plan places, and what copies from it.
_EMPTY: Final = (
    "aten::empty_strided(SymInt[] size, SymInt[] stride, *, ScalarType? dtype=None, "
    "Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"
)
_COPY: Final = "aten::copy_(Tensor(a!) self, Tensor src, bool non_blocking=False) -> Tensor(a!)"


def check_results(program: Program, is_fixed: Callable[[ExternKernel], bool]) -> Program:
    """Insert checks of library ops' results, each where all sizes of the result are known.

    Args:
        program: The program.
        is_fixed: Returns whether a call certainly returns what its line declares, and leaves the
            buffers that it writes as they are declared.

    Returns:
        The program; the same object if there is nothing to insert.
    """
    return _Checks(program, is_fixed).checked()


class _Checks:
    """One run over a program."""

    def __init__(self, program: Program, is_fixed: Callable[[ExternKernel], bool]) -> None:
        self._program = program
        self._is_fixed = is_fixed
        self._needed = _needed(program)
        self._buffers = dict(program.buffers)
        self._declared: dict[str, KernelDefinition] = {}

    def checked(self) -> Program:
        """Return the program with all checks."""
        body = self._region(self._program.region).body
        if body == self._program.body:
            return self._program
        new = [each for name, each in self._declared.items() if name not in self._program.kernels]
        return self._program.replace(body=(*new, *body), buffers=FrozenMap(self._buffers))

    def _region(self, region: Region) -> Region:
        body = tuple(self._lines(region.body))
        body = tuple(map_regions(line, self._region) for line in body)
        return region if body == region.body else dataclasses.replace(region, body=body)

    def _lines(self, body: Sequence[AnyLine]) -> Iterator[AnyLine]:
        coming = {symbol for line in body for symbol in effects(line).defines_symbols}
        pending: dict[str, ExternKernel] = {}
        for position, line in enumerate(body):
            found = effects(line)
            coming.difference_update(found.defines_symbols)
            for name in found.kills:
                pending.pop(name, None)
            if calls_op(line):
                rest = partial(_after, body, position)
                results, outs = _unchecked(self._program, line, self._needed, rest)
                if (results or outs) and not self._is_fixed(line):
                    pending.update(dict.fromkeys(results, line))
                    yield from self._into_own_memory(line, outs)
                else:
                    yield line
                yield from _ranges(self._program, line, rest)
            else:
                yield line
            for name in [n for n in pending if not self._program.layout(n).symbols & coming]:
                maker = pending.pop(name)
                yield AssertLayout(name, maker.op, origin=maker.origin)

    def _into_own_memory(self, line: ExternKernel, outs: Sequence[str]) -> Iterator[AnyLine]:
        """Yield a call that writes some buffers, which are checked before anything reads them."""
        is_returned = any(
            isinstance(r, ResultBuffer) and set(r.of) & set(outs) for r in line.results
        )
        if is_returned or not is_torchs(line.op):
            yield line
            yield from (AssertLayout(name, line.op, origin=line.origin) for name in outs)
            return
        own = {name: self._fresh(name) for name in outs}
        for other in own.values():
            yield self._empty(line, other)
        renaming = Renaming(lambda name: own.get(name, name), str, str)
        yield dataclasses.replace(line, kwargs=renaming.value(line.kwargs))
        for name, other in own.items():
            yield AssertLayout(other, line.op, origin=line.origin)
            args = (BufferArg(name, Access.READ_WRITE), BufferArg(other))
            yield self._call(line, _COPY, args)
            if self._program.stage is Stage.PLANNED:
                yield Free(other, origin=line.origin)

    def _fresh(self, name: str) -> str:
        """Name a buffer like another one, row-major."""
        layout, number = self._program.layout(name), 0
        while (own := f"{name}_own{number or ''}") in self._buffers or own in self._program.objects:
            number += 1
        self._buffers[own] = Layout.contiguous(layout.dtype, layout.size, layout.device)
        return own

    def _empty(self, line: ExternKernel, name: str) -> ExternKernel:
        layout = self._buffers[name]
        sizes = tuple(ListArg(tuple(map(ScalarArg, each))) for each in (layout.size, layout.stride))
        kwargs = (("dtype", DTypeArg(layout.dtype)), ("device", DeviceArg(layout.device)))
        call = self._call(line, _EMPTY, sizes)
        return dataclasses.replace(call, kwargs=kwargs, results=(ResultBuffer(name),))

    def _call(self, line: ExternKernel, schema: str, args: tuple[Any, ...]) -> ExternKernel:
        """Return a call of an op in the place of another one."""
        name = schema.partition("(")[0]
        self._declared[name] = KernelDefinition(name, (), TorchOp(schema))
        return dataclasses.replace(line, op=name, args=args, kwargs=(), results=())


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


def _after(body: Sequence[AnyLine], position: int) -> Iterator[AnyLine]:
    """Iterate over the lines after one, without a copy: programs have as many calls as lines."""
    return map(body.__getitem__, range(position + 1, len(body)))


def _unchecked(
    program: Program, line: ExternKernel, needed: set[str], rest: Callable[[], Iterable[AnyLine]]
) -> tuple[list[str], list[str]]:
    """Return the results and the output buffers of a call that nothing checks.

    Of results, only those count that something depends on.
    """
    if line.op in PACKING_OPS:
        return [], []
    results = [r.out for r in line.results if isinstance(r, ResultBuffer) and r.out in needed]
    given = buffers_in([value for _, value in line.kwargs])
    outs = dict.fromkeys(arg.buffer for arg in given if arg.access.writes)

    def unchecked(names: Iterable[str]) -> list[str]:
        return [
            name
            for name in names
            if program.layout(name).kind is LayoutKind.STRIDED and not _is_checked(name, rest)
        ]

    return unchecked(results), unchecked(outs)


def _is_checked(name: str, rest: Callable[[], Iterable[AnyLine]]) -> bool:
    """Return whether a buffer's layout is checked before anything else depends on it."""
    for line in rest():
        if checks_layout(line) and line.buffer == name:
            return True
        if name in effects(line).touched and not binds(line):
            return False
    return False


def _ranges(
    program: Program, line: ExternKernel, rest: Callable[[], Iterable[AnyLine]]
) -> Iterator[AnyLine]:
    """Yield checks of the numbers that an op returns, where the program states their ranges."""
    for result in line.results:
        if not isinstance(result, ResultSymbol):
            continue
        info = program.symbols.get(result.symbol)
        if info is None or info.kind is not SymbolKind.INT:
            continue
        limits = (info.lower, info.upper)
        for check in range_checks(symbol(result.symbol), *limits, result.symbol, line.origin):
            if not _is_asserted(check, result.symbol, rest):
                yield check


def _is_asserted(check: AssertSymbol, name: str, rest: Callable[[], Iterable[AnyLine]]) -> bool:
    """Return whether lines assert all that a check of a symbol does, before others use it."""
    left = _parts(check.condition)
    for line in rest():
        if asserts(line):
            left -= _parts(line.condition)
        elif name in effects(line).uses_symbols:
            break
    return not left


def _parts(condition: object) -> set[object]:
    """Return the relations of a condition that all hold."""
    parts = condition.args if isinstance(condition, sympy.And) else (condition,)
    return {each.canonical if isinstance(each, sympy.Rel) else each for each in parts}
