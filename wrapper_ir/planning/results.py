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
from functools import cached_property, partial
from typing import TYPE_CHECKING, Final, NamedTuple

import sympy

import wrapper_ir.lines as ir
from wrapper_ir.analysis.liveness import storages_of
from wrapper_ir.analysis.ops import is_torchs
from wrapper_ir.build.draft import range_checks
from wrapper_ir.build.rewriting import Draft
from wrapper_ir.lines.args import buffers_in
from wrapper_ir.lines.expr import symbol
from wrapper_ir.lines.program import PACKING_OPS
from wrapper_ir.lines.traits import asserts, binds, calls_op, checks_layout, ends
from wrapper_ir.lines.walk import Renaming

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence


#: What makes memory of an op's own, which no plan places.
_EMPTY: Final = (
    "aten::empty_strided(SymInt[] size, SymInt[] stride, *, ScalarType? dtype=None, "
    "Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"
)


def check_results(program: ir.Program, is_fixed: Callable[[ir.ExternKernel], bool]) -> ir.Program:
    """Insert checks of library ops' results, each where all sizes of the result are known.

    Args:
        program: The program.
        is_fixed: Returns whether a call certainly returns what its line declares, and leaves the
            buffers that it writes as they are declared.

    Returns:
        The program; the same object if there is nothing to insert.
    """
    draft = Draft(program)
    return draft.rewritten(_Checks(draft, is_fixed).lines)


class _Missing(NamedTuple):
    """The results and output buffers of a call that nothing checks, and checks of its numbers."""

    results: list[str]
    outs: list[str]
    numbers: list[ir.AssertSymbol]


class _Checks:
    """One run over a program."""

    def __init__(self, draft: Draft, is_fixed: Callable[[ir.ExternKernel], bool]) -> None:
        self._draft = draft
        self._program = draft.program
        self._is_fixed = is_fixed

    def lines(self, region: ir.Region) -> Iterable[ir.AnyLine]:
        """Return the lines of a region with all checks."""
        body = region.body
        missing = {
            position: found
            for position, line in enumerate(body)
            if calls_op(line) and any(found := self._missing(line, partial(_after, body, position)))
        }
        return self._checked(body, missing) if missing else body

    def _checked(
        self, body: Sequence[ir.AnyLine], missing: Mapping[int, _Missing]
    ) -> Iterator[ir.AnyLine]:
        coming = {symbol for line in body for symbol in ir.effects(line).defines_symbols}
        pending: dict[str, ir.ExternKernel] = {}
        for position, line in enumerate(body):
            found = ir.effects(line)
            coming.difference_update(found.defines_symbols)
            for name in found.kills:
                pending.pop(name, None)
            if position in missing and calls_op(line):
                results, outs, numbers = missing[position]
                pending.update(dict.fromkeys(results, line))
                yield from self._into_own_memory(line, outs)
                yield from numbers
            else:
                yield line
            for name in [n for n in pending if not self._program.layout(n).symbols & coming]:
                maker = pending.pop(name)
                yield ir.AssertLayout(name, maker.op, origin=maker.origin)

    def _missing(self, line: ir.ExternKernel, rest: Callable[[], Iterable[ir.AnyLine]]) -> _Missing:
        """Return what of a call is to be checked. Of results, only those count that are needed."""
        results, outs = _unchecked(self._program, line, rest)
        results = [name for name in results if name in self._needed]
        if (results or outs) and self._is_fixed(line):
            results, outs = [], []
        return _Missing(results, outs, [*_ranges(self._program, line, rest)])

    @cached_property
    def _needed(self) -> set[str]:
        """The buffers that something depends on: lines other than frees, and results."""
        if self._program.stage is not ir.Stage.PLANNED:
            return _needed(self._program.region)
        # Those of the body are known, since emitters ask for the same.
        regions = (each for line in self._program.body for _, each in ir.regions_of(line))
        return storages_of(self._program).touched.union(*map(_needed, regions))

    def _into_own_memory(self, line: ir.ExternKernel, outs: Sequence[str]) -> Iterator[ir.AnyLine]:
        """Yield a call that writes some buffers, which are checked before anything reads them."""
        is_returned = any(
            isinstance(r, ir.ResultBuffer) and set(r.of) & set(outs) for r in line.results
        )
        if is_returned or not is_torchs(line.op):
            yield line
            yield from (ir.AssertLayout(name, line.op, origin=line.origin) for name in outs)
            return
        own = {name: self._own(name) for name in outs}
        for other in own.values():
            yield self._empty(line, other)
        renaming = Renaming(lambda name: own.get(name, name), str, str)
        yield dataclasses.replace(line, kwargs=renaming.value(line.kwargs))
        for name, other in own.items():
            yield ir.AssertLayout(other, line.op, origin=line.origin)
            yield self._draft.copy(line, name, other)
            if self._program.stage is ir.Stage.PLANNED:
                yield ir.Free(other, origin=line.origin)

    def _own(self, name: str) -> str:
        """Name a buffer like another one, row-major."""
        layout = self._program.layout(name)
        row_major = ir.Layout.contiguous(layout.dtype, layout.size, layout.device)
        return self._draft.buffer(f"{name}_own", row_major)

    def _empty(self, line: ir.ExternKernel, name: str) -> ir.ExternKernel:
        layout = self._draft.layout(name)
        sizes = tuple(
            ir.ListArg(tuple(map(ir.ScalarArg, each))) for each in (layout.size, layout.stride)
        )
        kwargs = (("dtype", ir.DTypeArg(layout.dtype)), ("device", ir.DeviceArg(layout.device)))
        return self._draft.call(
            _EMPTY,
            sizes,
            kwargs=kwargs,
            results=(ir.ResultBuffer(name),),
            device=line.device,
            stream=line.stream,
            mempool=line.mempool,
            origin=line.origin,
        )


def _needed(region: ir.Region) -> set[str]:
    """Return the buffers that lines of a region other than frees touch, and its results."""
    needed = {v.buffer for v in region.results if isinstance(v, ir.BufferValue)}
    for line in region.body:
        if not ends(line):
            found = ir.effects(line)
            needed.update(found.touched, found.peeks)
        for _, inner in ir.regions_of(line):
            needed |= _needed(inner)
    return needed


def _after(body: Sequence[ir.AnyLine], position: int) -> Iterator[ir.AnyLine]:
    """Iterate over the lines after one, without a copy: programs have as many calls as lines."""
    return map(body.__getitem__, range(position + 1, len(body)))


def _unchecked(
    program: ir.Program, line: ir.ExternKernel, rest: Callable[[], Iterable[ir.AnyLine]]
) -> tuple[list[str], list[str]]:
    """Return the results and the output buffers of a call that nothing checks."""
    if line.op in PACKING_OPS:
        return [], []
    results = [r.out for r in line.results if isinstance(r, ir.ResultBuffer)]
    given = buffers_in([value for _, value in line.kwargs])
    outs = dict.fromkeys(arg.buffer for arg in given if arg.access.writes)

    def unchecked(names: Iterable[str]) -> list[str]:
        return [
            name
            for name in names
            if program.layout(name).kind is ir.LayoutKind.STRIDED and not _is_checked(name, rest)
        ]

    return unchecked(results), unchecked(outs)


def _is_checked(name: str, rest: Callable[[], Iterable[ir.AnyLine]]) -> bool:
    """Return whether a buffer's layout is checked before anything else depends on it."""
    for line in rest():
        if checks_layout(line) and line.buffer == name:
            return True
        if name in ir.effects(line).touched and not binds(line):
            return False
    return False


def _ranges(
    program: ir.Program, line: ir.ExternKernel, rest: Callable[[], Iterable[ir.AnyLine]]
) -> Iterator[ir.AssertSymbol]:
    """Yield checks of the numbers that an op returns, where the program states their ranges."""
    for result in line.results:
        if not isinstance(result, ir.ResultSymbol):
            continue
        info = program.symbols.get(result.symbol)
        if info is None or info.kind is not ir.SymbolKind.INT:
            continue
        limits = (info.lower, info.upper)
        for check in range_checks(symbol(result.symbol), *limits, result.symbol, line.origin):
            if not _is_asserted(check, result.symbol, rest):
                yield check


def _is_asserted(
    check: ir.AssertSymbol, name: str, rest: Callable[[], Iterable[ir.AnyLine]]
) -> bool:
    """Return whether lines assert all that a check of a symbol does, before others use it."""
    left = _parts(check.condition)
    for line in rest():
        if asserts(line):
            left -= _parts(line.condition)
        elif name in ir.effects(line).uses_symbols:
            break
    return not left


def _parts(condition: object) -> set[object]:
    """Return the relations of a condition that all hold."""
    parts = condition.args if isinstance(condition, sympy.And) else (condition,)
    return {each.canonical if isinstance(each, sympy.Rel) else each for each in parts}
