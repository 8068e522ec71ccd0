"""Lines that allocate, pass on and rename storage, as Inductor's scheduler decided.

Inductor's memory planner has not run; reuse and ends of storages are left to our own. Decisions
that are already made must be kept: the text of a kernel that works in place has a single pointer
for the old buffer and the new one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import torch

from wrapper_ir.build.draft import at_start
from wrapper_ir.frontends.common.ops import call_of, to_device
from wrapper_ir.frontends.common.regions import copied
from wrapper_ir.frontends.inductor.compat import keeps_memory_of_peers
from wrapper_ir.frontends.inductor.errors import UnsupportedLineError
from wrapper_ir.lines.args import Access, Arg, BufferArg, ListArg, NamedArg, ScalarArg
from wrapper_ir.lines.layout import DType, Layout
from wrapper_ir.lines.memory import Allocate, MemoryKind, Reinterpret, Reuse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wrapper_ir.frontends.inductor.convert.state import Scope
    from wrapper_ir.frontends.inductor.notes import PartNote


def allocate(scope: Scope, line: Any) -> None:
    """Convert an ``AllocateLine``."""
    name = line.node.get_name()
    if name in scope.graph.removed_buffers:
        return
    if line.comm_buffer and not keeps_memory_of_peers():
        why = "peers address it, and kernels of this release of torch may not find it; 2.12 does"
        raise UnsupportedLineError("AllocateLine", name, why)
    make(scope, line.node, for_peers=line.comm_buffer)


def make(scope: Scope, node: Any, *, for_peers: bool = False) -> None:
    """Allocate the storage of one of Inductor's buffers, which peers address if ``for_peers``."""
    name = node.get_name()
    layout = _view_layout(scope, node)
    origin = scope.origin(node)
    memory = MemoryKind.PINNED if node.get_is_pinned() else MemoryKind.DEFAULT
    memory = MemoryKind.SYMMETRIC if for_peers else memory
    mode = getattr(node, "zero_mode", None)  # which only workspaces of kernels have
    zeroed = mode is not None and mode.name != "UNINITIALIZED"
    storage = tuple(map(scope.dim, scope.graph.get_allocation_size(node)))
    if storage == layout.size:
        name = scope.define(name, layout)
        scope.emit(Allocate(out=name, memory=memory, zeroed=zeroed, origin=origin))
        return
    # The buffer is padded: its storage is larger than the view of it.
    owner = scope.draft.fresh(f"{name}_storage")
    owner = scope.define(owner, Layout(layout.dtype, layout.device, storage, layout.stride))
    scope.emit(Allocate(out=owner, memory=memory, origin=origin))
    name = scope.define(name, layout)
    scope.emit(Reinterpret(out=name, source=owner, origin=origin))


def reuse(scope: Scope, line: Any) -> None:
    """Convert a ``ReuseLine``: a kernel's result takes over the storage of a dead argument."""
    if line.node.get_name() in scope.graph.removed_buffers:
        return
    origin = scope.origin(line.reused_as)
    donor = scope.resolve(line.node.get_name())
    layout = _view_layout(scope, line.reused_as)
    # A padded buffer or a subgraph's result may be a view of a whole storage. If the view begins
    # inside the storage, the rest of it may still be needed.
    begins_inside = scope.layout(donor).offset != 0
    if begins_inside or _is_kept(scope, donor):
        donor = copied(scope.draft, donor, origin=origin)
    donor = scope.draft.owner(donor)
    scope.retire(donor)
    name = scope.define(line.reused_as.get_name(), layout)
    scope.emit(Reuse(out=name, donor=donor, origin=origin))


def _is_kept(scope: Scope, name: str) -> bool:
    """Return whether a buffer's storage outlives it in a way that Inductor does not know of.

    Inductor identifies donated inputs of a backward's subgraphs by the positions of the backward's
    own inputs, but they belong to the caller, who may still use them. Results of a subgraph may
    share storage. And an object may hold on to what it was passed.
    """
    root = scope.draft.owner(name)
    return root in scope.lent or root in scope.held or root in scope.draft.constants


def reinterpret(scope: Scope, line: Any) -> None:
    """Convert a ``ReinterpretLine``: a buffer inside another one, such as a part of a cat."""
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
    return at_start(scope.to_layout(node.get_output_spec()))


# Results that a kernel leaves as partial results: the final reduction, which Inductor writes as
# text.
#
# The text is ``buf5 = workspace_0[a : b].view(rows, columns).sum(dim=0)``, with another shape and
# type if the result has them. Here it is a view of the workspace and an op that writes into an
# allocated buffer: the same kernel of torch's that the text would call, so the bits are equal.


#: The op of each reduction, and its argument for reducing the rows.
_OPS: Final[Mapping[str, tuple[Any, Arg]]] = {
    "sum": (torch.ops.aten.sum.IntList_out, ListArg((ScalarArg(0),))),
    "prod": (torch.ops.aten.prod.int_out, ScalarArg(0)),
}


def combine_parts(scope: Scope, note: PartNote) -> None:
    """Combine the partial results of a buffer, by a sum or a product."""
    if note.reduction not in _OPS:
        why = f"its parts are reduced by '{note.reduction}'"
        raise UnsupportedLineError("result in parts", note.buffer, why)
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
    # A copy converts the type or spreads the elements where the buffer needs it.
    is_copied = layout.dtype is not DType.FLOAT32 or not layout.is_contiguous
    whole = result
    if is_copied:
        plain = Layout.contiguous(DType.FLOAT32, layout.size, layout.device)
        whole = scope.define(scope.draft.fresh(f"{result}_whole"), plain)
        scope.emit(Allocate(whole))
    out = BufferArg(scope.block(whole, (columns,), 0, origin), Access.WRITE)
    _call(scope, op, (BufferArg(parts), dim), (("out", out),), node)
    if is_copied:
        args = (BufferArg(result, Access.WRITE), BufferArg(whole))
        _call(scope, torch.ops.aten.copy_.default, args, (), node)


def _call(
    scope: Scope, op: Any, args: tuple[Arg, ...], named: tuple[NamedArg, ...], node: Any
) -> None:
    device = to_device(node.get_device())
    scope.emit_call(call_of(scope.draft, op, args, named, device=device), [node])
