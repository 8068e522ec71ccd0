"""Triton kernels, noted where they are defined: Inductor's own, and those of users."""

from __future__ import annotations

import ast
import dataclasses
from typing import TYPE_CHECKING, Any

from wrapper_ir.frontends.inductor.compat import Placeholder, V, ir
from wrapper_ir.frontends.inductor.notes import (
    BufferNote,
    PartNote,
    TritonNote,
    buffers_of,
    nodes_of,
)
from wrapper_ir.lines.args import Access

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


class NotingTriton:
    """Mixin: leaves a note for the call that comes next. Before Inductor's class in the order."""

    def define_kernel(self, src_code: str, node_schedule: Any, kernel: Any) -> str:
        """Define a kernel as Inductor does, and note it."""
        stock: Any = super()
        name: str = stock.define_kernel(src_code, node_schedule, kernel)
        leave_note = getattr(V.graph.wrapper_code, "note_kernel", None)
        if leave_note is not None:
            leave_note(_note(name, src_code, node_schedule, kernel))
        if getattr(kernel, "saved_partial_accumulate", None):
            kernel.saved_partial_accumulate = _Parts(kernel)
        return name


class _Parts(list[Any]):
    """A kernel's results that are in parts; the wrapper knows which one is being made whole.

    Inductor goes through the list once the kernel is called, and writes text for each.

    Args:
        kernel: A Triton kernel of Inductor's, its workspace included.
    """

    def __init__(self, kernel: Any) -> None:
        super().__init__(kernel.saved_partial_accumulate)
        rows, columns, split = kernel.numels["x"], kernel.numels["r0_"], kernel.rsplit_size
        self._rows, self._columns = (rows + split - 1) // split, columns
        (self._workspace,) = kernel.args.workspace_args

    def __iter__(self) -> Iterator[Any]:
        wrapper: Any = V.graph.wrapper_code
        try:
            for position, part in enumerate(super().__iter__()):
                buffer: Any = V.graph.get_buffer(part.buffer_name)
                if isinstance(buffer.get_output_spec(), ir.NonOwningLayout):
                    wrapper.codegen_allocation(buffer)  # which Inductor forgets before 2.15
                wrapper.writing_part = PartNote(
                    part.buffer_name,
                    part.reduction_type,
                    self._workspace.outer_name,
                    position,
                    self._rows,
                    self._columns,
                )
                yield part
        finally:
            wrapper.writing_part = None


def _note(name: str, src_code: str, schedule: Sequence[Any], kernel: Any) -> TritonNote:
    code = src_code.replace(str(Placeholder.DESCRIPTIVE_NAME), name)
    code = code.replace(str(Placeholder.KERNEL_NAME), name).replace("#pragma CMT", "#")
    nodes = [node for node in schedule if hasattr(node, "get_buffer_names")]
    produced = frozenset(buffer for node in nodes for buffer in node.get_buffer_names())
    changed = frozenset(_changed(nodes))
    found = {}
    for note in buffers_of(kernel.args, produced):
        written_elsewhere = note.buffer in kernel.args.output_buffers
        if note.access is Access.READ and note.buffer in changed and not written_elsewhere:
            # A template writes to what it lists among its inputs, such as sums of attention.
            note = dataclasses.replace(note, access=Access.READ_WRITE)
        found[note.param] = note
    for workspace in getattr(kernel.args, "workspace_args", ()):
        param, buffer = workspace.inner_name, workspace.outer_name
        found[param] = BufferNote(param, buffer, workspace.dtype, Access.READ_WRITE)
    return TritonNote(name, code, name, found, nodes_of(nodes))


def _changed(nodes: Sequence[Any]) -> Iterator[str]:
    """Yield the names of buffers that nodes write to without making them."""
    real = V.graph.scheduler.mutation_real_name
    for node in nodes:
        for output in node.get_outputs():
            for name in output.get_mutations():
                yield name
                yield real.get(name, name)


def hint_for_export(error: Exception) -> str | None:
    """Return what to do about an error of ``torch.export``; None if no kernel is to blame."""
    # A kernel that is called as it is asks tensors without memory where theirs lies.
    is_kernel = "data pointer" in str(error) or "from Triton" in str(error)
    return "kernels of Triton are exported through torch.library.wrap_triton" if is_kernel else None


def note_of_users_kernel(name: str, definition: str, given: Mapping[str, Any]) -> TritonNote:
    """Note a kernel of the user's, and what it is called with by the node that is written now.

    Args:
        name: Inductor's name of it.
        definition: The expression of Python by which Inductor defines it.
        given: What is passed, by parameter.
    """
    call: Any = ast.parse(definition.strip(), mode="eval").body
    entry, code = (ast.literal_eval(argument) for argument in call.args[:2])
    current: Any = V.graph.scheduler.current_node
    nodes = nodes_of([current])
    user = next(node for node in nodes if isinstance(node, ir.UserDefinedTritonKernel))
    changed = {name for made in user.get_outputs() for name in made.get_mutation_names()}
    buffers = {}
    for param, value in given.items():
        if isinstance(value, ir.IRNode):
            # What was fused into the kernel may have it write another buffer than it was given.
            original: Any = user.kwargs[param]
            access = Access.READ_WRITE if original.get_name() in changed else Access.READ
            buffers[param] = BufferNote(param, value.get_name(), value.get_dtype(), access)
    return TritonNote(name, code.strip() + "\n", entry, buffers, nodes)
