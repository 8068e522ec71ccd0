"""Vectors that ``addmm`` adds to each row of a product on the CPU.

ATen copies the vector to each row of the result, then adds the product to that. Where the result is
small, the copy takes longer than it should: ATen plans it anew in each call, and we would make a
view of the vector for it. We copy the rows ourselves, and let ATen add to the result in place.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

import wrapper_ir.lines as ir

if TYPE_CHECKING:
    from wrapper_ir.analysis.liveness import Liveness

_OP: Final = "aten::addmm.out"

#: Up to so many elements ATen copies on one thread, too.
_MOST: Final = 32768


class Rows(NamedTuple):
    """A copy of a vector to each row of a result, and the op that adds to the result."""

    out: str
    vector: str
    line: ir.ExternKernel


def rows_of(program: ir.Program, line: ir.AnyLine, lives: Liveness) -> Rows | None:
    """Return what computes the same as a line and copies the rows first; None if nothing does.

    Args:
        program: The program.
        line: One of its lines.
        lives: When the program's storages live.
    """
    if (
        not isinstance(line, ir.ExternKernel)
        or line.op != _OP
        or line.results
        or len(line.args) < 3
    ):
        return None
    out, vector = dict(line.kwargs).get("out"), line.args[0]
    if not isinstance(out, ir.BufferArg) or not isinstance(vector, ir.BufferArg):
        return None
    if not _counts(line) or not _fit(program.layout(out.buffer), program.layout(vector.buffer)):
        return None
    if not _are_apart(program, out.buffer, vector.buffer, lives):
        return None
    return Rows(out.buffer, vector.buffer, replace(line, args=(out, *line.args[1:])))


def _are_apart(program: ir.Program, out: str, vector: str, lives: Liveness) -> bool:
    """Return whether the vector is certainly no part of the result. Those of callers may be."""
    given = [each.name for each in program.inputs if isinstance(each, ir.BufferInput)]
    own, others = lives.storages([out]), lives.storages([*given, *program.constants, vector])
    return bool(own and lives.of(vector)) and not own & others


def _counts(line: ir.ExternKernel) -> bool:
    """Return whether the op reads the vector: it does not if its factor is zero."""
    given = (*line.args[3:4], *(arg for name, arg in line.kwargs if name == "beta"))
    return all(isinstance(arg, ir.ScalarArg) and arg.value in (1, 1.0) for arg in given)


def _fit(out: ir.Layout, vector: ir.Layout) -> bool:
    if not out.is_static or out.rank != 2 or out.dtype is not vector.dtype:
        return False
    if out.device != ir.CPU or vector.device != ir.CPU:
        return False
    rows, columns = out.size
    assert isinstance(rows, int)
    assert isinstance(columns, int)
    as_rows = ((columns,), (1,)), ((1, columns), (columns, 1)), ((rows, columns), (0, 1))
    return (
        0 < rows * columns <= _MOST
        and out.stride == (columns, 1)
        and (vector.size, vector.stride) in as_rows
    )
