"""Loops whose operands and results share no memory, unless a write could tell."""

from __future__ import annotations

import dataclasses
import itertools
from typing import TYPE_CHECKING

from wrapper_ir.analysis.liveness import Liveness
from wrapper_ir.analysis.loops import handed_on, is_told_apart, shared_carried
from wrapper_ir.build.rewriting import Draft
from wrapper_ir.lines.args import BufferArg, BufferValue, Relation, ResultBuffer, buffers_in
from wrapper_ir.lines.memory import Allocate
from wrapper_ir.lines.traits import loops

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wrapper_ir.lines.args import CallResult
    from wrapper_ir.lines.control import Region, While
    from wrapper_ir.lines.program import AnyLine, Program


def separate_loops(program: Program) -> Program:
    """Copy what loops carry in shared memory, and what their bodies hand on as it is.

    A loop that writes what it carries is left alone: copies would lose that.
    """
    draft = Draft(program)
    return draft.rewritten(lambda region: _lines(region, draft))


def _lines(region: Region, draft: Draft) -> Iterator[AnyLine]:
    program = draft.program
    lives = Liveness(region, program) if any(map(loops, region.body)) else None
    for index, line in enumerate(region.body):
        if not loops(line) or lives is None or is_told_apart(line, index, region, lives, program):
            yield line
            continue
        carried = list(line.carried)
        copies: dict[str, list[str]] = {}
        for position in shared_carried(line, lives, program):
            arg = carried[position]
            assert isinstance(arg, BufferArg)
            copy = draft.buffer(f"{arg.buffer}_copy", draft.own(arg.buffer))
            yield Allocate(copy, origin=line.origin)
            yield draft.copy(line, copy, arg.buffer)
            carried[position] = dataclasses.replace(arg, buffer=copy)
            copies.setdefault(arg.buffer, []).append(copy)
        left = {arg.buffer for arg in buffers_in((*carried, *line.captured))}
        results = [_of_copies(result, copies, left) for result in line.results]
        for position in handed_on(line, program):
            results[position] = _perhaps_new(results[position])
        body = _handing_on_copies(line, draft)
        if copies or body is not line.body:
            line = dataclasses.replace(
                line, carried=tuple(carried), results=tuple(results), body=body
            )
        yield line


def _of_copies(result: CallResult, copies: dict[str, list[str]], left: set[str]) -> CallResult:
    """Return a result of a loop, which may be a view of copies as well as of what is ``left``."""
    if not isinstance(result, ResultBuffer) or copies.keys().isdisjoint(result.of):
        return result
    of = [(n,) * (n in left) + tuple(copies.get(n, ())) for n in result.of]
    return dataclasses.replace(result, of=tuple(dict.fromkeys(itertools.chain(*of))))


def _perhaps_new(result: CallResult) -> CallResult:
    """Return the result of a body that copies: the operand's memory only if no round is run."""
    if not isinstance(result, ResultBuffer) or result.relation is Relation.FRESH:
        return result
    return dataclasses.replace(result, relation=Relation.MAY_ALIAS)


def _handing_on_copies(line: While, draft: Draft) -> Region:
    """Return the body of a loop with copies of what it handed on as it is."""
    body, results = line.body, list(line.body.results)
    added: list[AnyLine] = []
    for position in handed_on(line, draft.program):
        value = results[position]
        assert isinstance(value, BufferValue)
        copy = draft.buffer(f"{value.buffer}_copy", draft.own(value.buffer))
        added += [Allocate(copy, origin=line.origin), draft.copy(line, copy, value.buffer)]
        results[position] = BufferValue(copy)
    if not added:
        return body
    return dataclasses.replace(body, body=(*body.body, *added), results=tuple(results))
