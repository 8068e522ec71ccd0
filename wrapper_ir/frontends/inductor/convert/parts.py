"""Results that a kernel leaves in parts: the last step, which Inductor writes as text.

Its text is ``buf5 = workspace_0[a : b].view(rows, columns).sum(dim=0)``, with another shape and
type where the result has them. Here that is a view of the workspace, and an op which writes into a
buffer made before: it is the kernel of torch's that the text comes to, so the bits are the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import torch

from wrapper_ir.frontends.common.regions import declare
from wrapper_ir.frontends.inductor.convert.memory import make
from wrapper_ir.frontends.inductor.convert.values import to_device
from wrapper_ir.frontends.inductor.errors import UnsupportedLineError
from wrapper_ir.lines.args import Access, Arg, BufferArg, ListArg, NamedArg, ScalarArg
from wrapper_ir.lines.dtype import DType
from wrapper_ir.lines.kernels import ExternKernel
from wrapper_ir.lines.layout import Layout
from wrapper_ir.lines.memory import Allocate

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wrapper_ir.frontends.inductor.convert.state import Scope
    from wrapper_ir.frontends.inductor.notes import PartNote

__all__ = ["make_whole"]

#: The op of each reduction, and how it is told that rows are what to reduce.
_OPS: Final[Mapping[str, tuple[Any, Arg]]] = {
    "sum": (torch.ops.aten.sum.IntList_out, ListArg((ScalarArg(0),))),
    "prod": (torch.ops.aten.prod.int_out, ScalarArg(0)),
}


def make_whole(scope: Scope, note: PartNote) -> None:
    """Reduce the parts of a result.

    Raises:
        UnsupportedLineError: They are parts of something that is neither a sum nor a product.
    """
    if note.reduction not in _OPS:
        raise UnsupportedLineError(
            kind="result in parts",
            text=note.buffer,
            why=f"its parts are reduced by '{note.reduction}'",
        )
    op, dim = _OPS[note.reduction]
    node = scope.graph.get_buffer(note.buffer)
    origin = scope.origin(node)
    rows, columns = scope.dim(note.rows), scope.dim(note.columns)
    workspace = scope.resolve(note.workspace)
    begin = scope.dim(note.position * note.rows * note.columns)
    parts = scope.block(workspace, (rows, columns), begin, origin)
    if scope.name(note.buffer) not in scope.defined:
        make(scope, node)
    result = scope.resolve(note.buffer)
    layout = scope.layout(result)
    # What the whole is to be besides, of another type or among other elements, a copy makes of it.
    is_copied = layout.dtype is not DType.FLOAT32 or not layout.is_contiguous
    whole = _plain(scope, result, layout) if is_copied else result
    out = BufferArg(scope.block(whole, (columns,), 0, origin), Access.WRITE)
    _call(scope, op, (BufferArg(parts), dim), (("out", out),), node)
    if is_copied:
        args = (BufferArg(result, Access.WRITE), BufferArg(whole))
        _call(scope, torch.ops.aten.copy_.default, args, (), node)


def _plain(scope: Scope, result: str, layout: Layout) -> str:
    """Make a buffer of a result's size for what its parts come to."""
    plain = Layout.contiguous(DType.FLOAT32, layout.size, layout.device)
    name = scope.define(scope.draft.fresh(f"{result}_whole"), plain)
    scope.emit(Allocate(name))
    return name


def _call(
    scope: Scope, op: Any, args: tuple[Arg, ...], named: tuple[NamedArg, ...], node: Any
) -> None:
    device = to_device(node.get_device())
    call = ExternKernel(declare(scope.draft, op), args, named, device=device)
    scope.emit_call(call, [node])
