"""Vectors that ``addmm`` adds to each row of a product on the CPU.

ATen copies the vector to each row of the result, then adds the product to that. Where the result is
small, the copy takes longer than it should: ATen plans it anew in each call, and we would make a
view of the vector for it. We copy the rows ourselves, and let ATen add to the result in place.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

import wrapper_ir.lines as ir

if TYPE_CHECKING:
    from wrapper_ir.analysis.liveness import Liveness

_OP: Final = "aten::addmm.out"

#: Up to so many elements ATen copies on one thread, too.
_MOST: Final = 32768


class Rows(NamedTuple):
    """A vector that is added to each row of a product, by the names of buffers."""

    out: str
    vector: str
    left: str
    right: str
    alpha: float


def rows_of(program: ir.Program, line: ir.AnyLine, lives: Liveness) -> Rows | None:
    """Return the product of a line that may copy the rows first; None if it is none.

    Args:
        program: The program.
        line: One of its lines.
        lives: When the program's storages live.
    """
    if not isinstance(line, ir.ExternKernel) or line.op != _OP or line.results:
        return None
    match (*line.args, dict(line.kwargs).get("out")):
        case [
            ir.BufferArg(buffer=vector),
            ir.BufferArg(buffer=left),
            ir.BufferArg(buffer=right),
            *_,
            ir.BufferArg(buffer=out),
        ]:
            alpha = _alpha(line)
        case _:
            return None
    is_one = alpha is not None and _fit(program.layout(out), program.layout(vector))
    if alpha is None or not is_one or not _are_apart(program, out, vector, lives):
        return None
    return Rows(out, vector, left, right, alpha)


def _are_apart(program: ir.Program, out: str, vector: str, lives: Liveness) -> bool:
    """Return whether the vector is certainly no part of the result. Those of callers may be."""
    given = [each.name for each in program.inputs if isinstance(each, ir.BufferInput)]
    own, others = lives.storages([out]), lives.storages([*given, *program.constants, vector])
    return bool(own and lives.of(vector)) and not own & others


def _alpha(line: ir.ExternKernel) -> float | None:
    """Return the factor of the product, if that of the vector is one and both are known."""
    given = dict(zip(("beta", "alpha"), line.args[3:], strict=False)) | dict(line.kwargs)
    match given.get("beta", ir.ScalarArg(1)), given.get("alpha", ir.ScalarArg(1)):
        case ir.ScalarArg(value=1 | 1.0), ir.ScalarArg(value=int() | float() as alpha):
            return float(alpha) if math.isfinite(alpha) else None
        case _:
            return None


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
