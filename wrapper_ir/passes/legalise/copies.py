"""Copies round calls and loops that write or share memory in ways that a target cannot render.

A call writes a copy, which is copied back right after it. If the call reads the buffer, or leaves
some of the copied bytes as they are, the contents are copied in before it.

A view of another element type than its memory's is copied in whole elements of the memory: the row
of these that covers it is copied as the view's type, and copied back as the memory's.
"""

from __future__ import annotations

import dataclasses
import itertools
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import wrapper_ir.lines as ir
from wrapper_ir.analysis import legality
from wrapper_ir.analysis.liveness import Liveness
from wrapper_ir.analysis.ops import overwritten
from wrapper_ir.build.rewriting import Draft
from wrapper_ir.lines import traits
from wrapper_ir.lines.args import buffers_in
from wrapper_ir.lines.expr import ceil_divided, divided

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from wrapper_ir.options.declared import Legal

    Call: TypeAlias = ir.ExternKernel | ir.KernelCall


def copy_round_writes(program: ir.Program, legal: Legal) -> ir.Program:
    """Let calls write copies of what they may not write themselves."""
    draft = Draft(program)
    return draft.rewritten(lambda region: _lines(region, draft, legal))


def _lines(region: ir.Region, draft: Draft, legal: Legal) -> Iterator[ir.AnyLine]:
    program = draft.program
    memories = legality.Memories(region, program)
    blank: set[str] = set()
    for line in region.body:
        found = ir.effects(line, program)
        wrong = legality.illegal_writes(line, program, memories, legal)
        if wrong and (traits.calls_op(line) or traits.calls_kernel(line)):
            copies = {}
            for name, why in wrong.items():
                make = _typed if why == legality.AS_ANOTHER_TYPE else _plain
                is_read = name in found.reads and name not in overwritten(found)
                is_blank = memories.of(name).owner in blank
                copies[name] = make(line, name, memories, draft, _Contents(is_read, is_blank))
            yield from _with_copies(line, copies)
        else:
            yield line
        memories.learn(line)
        blank.difference_update(memories.of(name).owner for name in found.writes)
        if traits.is_slice(line) or (traits.allocates_one(line) and not line.zeroed):
            blank.add(line.out)
        elif any(memories.of(donor).owner in blank for donor in found.takes):
            blank.update(found.defines)


class _Contents(NamedTuple):
    """The contents of a buffer that a call writes: whether it reads them, and if there are none."""

    are_read: bool
    are_unset: bool


class _Copy(NamedTuple):
    """The buffer that is written in place of another, and the lines before and after the call."""

    written: str
    before: tuple[ir.AnyLine, ...]
    after: tuple[ir.AnyLine, ...]


def _plain(line: Call, name: str, _: legality.Memories, draft: Draft, contents: _Contents) -> _Copy:
    """Copy a buffer with its strides, since an op may compute differently where there are gaps.

    The copy is a view, which keeps its layout whatever the op would give.
    """
    layout = draft.own(name)
    row = dataclasses.replace(layout, size=(layout.clamped_extent,), stride=(1,))
    copy, written = draft.buffer(f"{name}_copy", row), draft.buffer(f"{name}_written", layout)
    before: list[ir.AnyLine] = [
        _allocated(line, copy),
        ir.Reinterpret(written, copy, origin=line.origin),
    ]
    if contents.are_read and not contents.are_unset:
        before.append(draft.copy(line, written, name))
    return _Copy(written, tuple(before), (draft.copy(line, name, written),))


def _typed(
    line: Call, name: str, memories: legality.Memories, draft: Draft, contents: _Contents
) -> _Copy:
    """Copy the elements of the memory that a view of another type covers, as that type."""
    layout, memory = draft.layout(name), memories.of(name)
    dtype, owner = memory.dtype, memory.owner
    old, new = dtype.itemsize, layout.dtype.itemsize
    start, count = ir.dim(layout.offset * new), layout.clamped_extent
    first, last = divided(start, old), ceil_divided(ir.dim(start + count * new), old)
    skipped = divided(ir.dim(start - first * old), new)
    whole = ir.Layout(
        layout.dtype, layout.device, (divided(ir.dim((last - first) * old), new),), (1,)
    )
    copy = draft.buffer(f"{name}_copy", whole)
    before: list[ir.AnyLine] = [_allocated(line, copy)]
    covers = skipped == 0 and count == layout.numel and whole.size == (count,)
    if not contents.are_unset and (contents.are_read or not covers):
        begin = divided(ir.dim(first * old), new)
        given = draft.buffer(f"{name}_given", dataclasses.replace(whole, offset=begin))
        before += [ir.Reinterpret(given, owner, origin=line.origin), draft.copy(line, copy, given)]
    written, wanted = copy, dataclasses.replace(layout, offset=skipped)
    if wanted != whole:
        written = draft.buffer(f"{name}_written", wanted)
        before.append(ir.Reinterpret(written, copy, origin=line.origin))
    row = ir.Layout(dtype, layout.device, (ir.dim(last - first),), (1,), first)
    target = draft.buffer(f"{name}_row", row)
    source = draft.buffer(f"{name}_back", dataclasses.replace(row, offset=0))
    after = (
        ir.Reinterpret(target, owner, origin=line.origin),
        ir.Reinterpret(source, copy, origin=line.origin),
        draft.copy(line, target, source),
    )
    return _Copy(written, tuple(before), after)


def _allocated(line: Call, copy: str) -> ir.Allocate:
    mempool = line.mempool if traits.takes_memory(line) else 0
    return ir.Allocate(copy, stream=line.stream, mempool=mempool, origin=line.origin)


def _with_copies(line: Call, copies: Mapping[str, _Copy]) -> Iterator[ir.AnyLine]:
    """Yield a call that writes copies, with what goes before and after it.

    What an op returns of a buffer that it wrote is a view of the copy. The program gets one of the
    buffer in its place.
    """
    names = {name: copy.written for name, copy in copies.items()}
    changed = dataclasses.replace(line, args=tuple(_with_written(arg, names) for arg in line.args))
    views: list[ir.AnyLine] = []
    if traits.calls_op(changed):
        kwargs = tuple((key, _with_written(arg, names)) for key, arg in changed.kwargs)
        kept = []
        for result in changed.results:
            source = _viewed(result)
            if source in names:
                assert isinstance(result, ir.ResultBuffer)
                views.append(ir.Reinterpret(result.out, source, origin=line.origin))
            else:
                kept.append(_of_copies(result, names))
        changed = dataclasses.replace(changed, kwargs=kwargs, results=tuple(kept))
    for copy in copies.values():
        yield from copy.before
    yield changed
    for copy in copies.values():
        yield from copy.after
    yield from views


def _with_written(arg: ir.Arg, names: Mapping[str, str]) -> ir.Arg:
    """Return an argument with copies in place of the buffers that the call writes."""
    match arg:
        case ir.ListArg():
            return ir.ListArg(tuple(_with_written(item, names) for item in arg.items))
        case ir.BufferArg() if arg.access.writes and arg.buffer in names:
            return dataclasses.replace(arg, buffer=names[arg.buffer])
        case _:
            return arg


def _viewed(result: ir.OpResult) -> str:
    """Return the only buffer that a result is a view of; empty if there is none."""
    if not isinstance(result, ir.ResultBuffer) or result.relation is not ir.Relation.ALIAS:
        return ""
    return result.of[0] if len(result.of) == 1 else ""


def _of_copies(result: ir.OpResult, names: Mapping[str, str]) -> ir.OpResult:
    if not isinstance(result, ir.ResultBuffer) or names.keys().isdisjoint(result.of):
        return result
    return dataclasses.replace(result, of=tuple(names.get(name, name) for name in result.of))


# Loops whose operands and results share no memory, unless a write could tell.


def separate_loops(program: ir.Program) -> ir.Program:
    """Copy what loops carry in shared memory, and what their bodies hand on as it is.

    A loop that writes what it carries is left alone: copies would lose that.
    """
    draft = Draft(program)
    return draft.rewritten(lambda region: _with_separate_loops(region, draft))


def _with_separate_loops(region: ir.Region, draft: Draft) -> Iterator[ir.AnyLine]:
    program = draft.program
    lives = Liveness(region, program) if any(map(traits.loops, region.body)) else None
    for index, line in enumerate(region.body):
        if (
            not traits.loops(line)
            or lives is None
            or legality.is_told_apart(line, index, region, lives, program)
        ):
            yield line
            continue
        carried = list(line.carried)
        copies: dict[str, list[str]] = {}
        for position in legality.shared_carried(line, lives, program):
            arg = carried[position]
            assert isinstance(arg, ir.BufferArg)
            copy = draft.buffer(f"{arg.buffer}_copy", draft.own(arg.buffer))
            yield ir.Allocate(copy, origin=line.origin)
            yield draft.copy(line, copy, arg.buffer)
            carried[position] = dataclasses.replace(arg, buffer=copy)
            copies.setdefault(arg.buffer, []).append(copy)
        left = {arg.buffer for arg in buffers_in((*carried, *line.captured))}
        results = [_views_of_copies(result, copies, left) for result in line.results]
        for position in legality.handed_on(line, program):
            results[position] = _perhaps_new(results[position])
        body = _handing_on_copies(line, draft)
        if copies or body is not line.body:
            line = dataclasses.replace(
                line, carried=tuple(carried), results=tuple(results), body=body
            )
        yield line


def _views_of_copies(
    result: ir.CallResult, copies: dict[str, list[str]], left: set[str]
) -> ir.CallResult:
    """Return a result of a loop, which may be a view of copies as well as of what is ``left``."""
    if not isinstance(result, ir.ResultBuffer) or copies.keys().isdisjoint(result.of):
        return result
    of = [(n,) * (n in left) + tuple(copies.get(n, ())) for n in result.of]
    return dataclasses.replace(result, of=tuple(dict.fromkeys(itertools.chain(*of))))


def _perhaps_new(result: ir.CallResult) -> ir.CallResult:
    """Return the result of a body that copies: the operand's memory only if no round is run."""
    if not isinstance(result, ir.ResultBuffer) or result.relation is ir.Relation.FRESH:
        return result
    return dataclasses.replace(result, relation=ir.Relation.MAY_ALIAS)


def _handing_on_copies(line: ir.While, draft: Draft) -> ir.Region:
    """Return the body of a loop with copies of what it handed on as it is."""
    body, results = line.body, list(line.body.results)
    added: list[ir.AnyLine] = []
    for position in legality.handed_on(line, draft.program):
        value = results[position]
        assert isinstance(value, ir.BufferValue)
        copy = draft.buffer(f"{value.buffer}_copy", draft.own(value.buffer))
        added += [ir.Allocate(copy, origin=line.origin), draft.copy(line, copy, value.buffer)]
        results[position] = ir.BufferValue(copy)
    if not added:
        return body
    return dataclasses.replace(body, body=(*body.body, *added), results=tuple(results))
