"""Lines that make, hand on and re-name storage, as Inductor's scheduling decided them.

Inductor's planner has not run. What it would do later (reuse, ends) is the business of our own;
what is decided already must be kept: where a kernel works in place, its text has one pointer for
the old buffer and the new one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import torch

from wrapper_ir.build.draft import at_start
from wrapper_ir.frontends.common.ops import call_of, to_device
from wrapper_ir.frontends.common.regions import copied
from wrapper_ir.frontends.inductor.errors import UnsupportedLineError
from wrapper_ir.lines.args import Access, Arg, BufferArg, ListArg, NamedArg, ScalarArg
from wrapper_ir.lines.layout import DType, Layout
from wrapper_ir.lines.memory import Allocate, MemoryKind, Reinterpret, Reuse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wrapper_ir.frontends.inductor.convert.state import Scope
    from wrapper_ir.frontends.inductor.notes import PartNote


def allocate(scope: Scope, line: Any) -> None:
    """Convert an ``AllocateLine``.

    Raises:
        UnsupportedLineError: It asks for memory that a group of devices shares.
    """
    name = line.node.get_name()
    if name in scope.graph.removed_buffers:
        return
    if line.comm_buffer:
        raise UnsupportedLineError(
            kind="AllocateLine", text=name, why="its memory is shared by a process group"
        )
    make(scope, line.node)


def make(scope: Scope, node: Any) -> None:
    """Make the storage of a buffer of Inductor's."""
    name = node.get_name()
    layout = _view_layout(scope, node)
    origin = scope.origin(node)
    memory = MemoryKind.PINNED if node.get_is_pinned() else MemoryKind.DEFAULT
    zeroed = _is_zeroed(node)
    storage = tuple(map(scope.dim, scope.graph.get_allocation_size(node)))
    if storage == layout.size:
        name = scope.define(name, layout)
        scope.emit(Allocate(out=name, memory=memory, zeroed=zeroed, origin=origin))
        return
    # The buffer is padded: its storage is larger than what is looked at.
    owner = scope.draft.fresh(f"{name}_storage")
    owner = scope.define(owner, Layout(layout.dtype, layout.device, storage, layout.stride))
    scope.emit(Allocate(out=owner, memory=memory, origin=origin))
    name = scope.define(name, layout)
    scope.emit(Reinterpret(out=name, source=owner, origin=origin))


def _is_zeroed(node: Any) -> bool:
    """Return whether it is a workspace of a kernel that has to hold zeros."""
    mode = getattr(node, "zero_mode", None)
    return mode is not None and mode.name != "UNINITIALIZED"


def reuse(scope: Scope, line: Any) -> None:
    """Convert a ``ReuseLine``: a kernel's result takes over the storage of a dying argument."""
    if line.node.get_name() in scope.graph.removed_buffers:
        return
    origin = scope.origin(line.reused_as)
    donor = scope.resolve(line.node.get_name())
    layout = _view_layout(scope, line.reused_as)
    # A padded buffer, or what a subgraph gives, may be a view of all of a storage; of what begins
    # inside of one, the rest may be wanted.
    begins_inside = scope.layout(donor).offset != 0
    if begins_inside or _is_kept(scope, donor):
        donor = copied(scope.draft, donor, origin=origin)
    donor = scope.draft.owner(donor)
    scope.retire(donor)
    name = scope.define(line.reused_as.get_name(), layout)
    scope.emit(Reuse(out=name, donor=donor, origin=origin))


def _is_kept(scope: Scope, name: str) -> bool:
    """Return whether a buffer's storage is wanted later, which Inductor does not know.

    Inductor takes inputs of a backward's subgraphs for its own, by the numbers of the backward's
    inputs; but they are the caller's, who may look at them again. Results of a subgraph may share
    storage. And what an object was given it may keep.
    """
    root = scope.draft.owner(name)
    return root in scope.lent or root in scope.held or root in scope.draft.constants


def reinterpret(scope: Scope, line: Any) -> None:
    """Convert a ``ReinterpretLine``: a buffer inside another one, as the parts of a cat are."""
    name = line.reused_as.get_name()
    if name in scope.graph.removed_buffers:
        return
    source = scope.resolve(line.layout.view.get_name())
    base = scope.layout(source)
    view = scope.to_layout(line.layout.view.layout)
    offset = scope.dim(base.offset + view.offset)
    name = scope.define(name, replace(view, offset=offset))
    scope.emit(Reinterpret(out=name, source=source, origin=scope.origin(line.reused_as)))


def _view_layout(scope: Scope, node: Any) -> Layout:
    """Return a buffer's layout, counted from its own first element."""
    spec = node.get_output_spec()
    return at_start(scope.to_layout(spec))


# Results that a kernel leaves in parts: the last step, which Inductor writes as text.
#
# Its text is ``buf5 = workspace_0[a : b].view(rows, columns).sum(dim=0)``, with another shape and
# type where the result has them. Here that is a view of the workspace, and an op which writes into
# a buffer made before: it is the kernel of torch's that the text comes to, so the bits are the
# same.


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
    scope.emit_call(call_of(scope.draft, op, args, named, device=device), [node])
