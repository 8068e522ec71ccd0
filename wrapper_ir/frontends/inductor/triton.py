"""Notes on Triton kernels, taken where they are defined: Inductor's own, and users'."""

from __future__ import annotations

import ast
import dataclasses
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from wrapper_ir.frontends.inductor import notes
from wrapper_ir.frontends.inductor.compat import (
    FusedNestedReductions,
    MemoryDep,
    Mixin,
    Placeholder,
    V,
    ir,
)
from wrapper_ir.frontends.inductor.reach import bytes_per_block, reach_of
from wrapper_ir.lines.args import Access

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


class NotingTriton(Mixin):
    """Mixin that records kernels in the wrapper; precedes Inductor's scheduling in the MRO."""

    @override
    def define_kernel(self, src_code: str, node_schedule: Any, kernel: Any) -> str:
        """Define a kernel as Inductor does, and note it."""
        name: str = super().define_kernel(src_code, node_schedule, kernel)
        leave_note = getattr(V.graph.wrapper_code, "note_kernel", None)
        if leave_note is not None:
            leave_note(_note(name, src_code, node_schedule, kernel))
        if getattr(kernel, "saved_partial_accumulate", None):
            kernel.saved_partial_accumulate = _Parts(kernel)
        return name

    @override
    def codegen_sync(self) -> None:
        """Wait for the GPU after a kernel as Inductor does, recording the line that does."""
        leave_note = getattr(V.graph.wrapper_code, "note_wait", None)
        if leave_note is not None:
            leave_note()
        super().codegen_sync()


class _Parts(list[Any]):
    """A kernel's partial results, which tell the wrapper which one is being combined.

    Inductor iterates over the list after the kernel's call, and writes text for each.
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
                where = self._workspace.outer_name, position, self._rows, self._columns
                wrapper.writing_part = notes.PartNote(part.buffer_name, part.reduction_type, *where)
                yield part
        finally:
            wrapper.writing_part = None


def _note(name: str, src_code: str, schedule: Sequence[Any], kernel: Any) -> notes.TritonNote:
    code = src_code.replace(str(Placeholder.DESCRIPTIVE_NAME), name)
    code = code.replace(str(Placeholder.KERNEL_NAME), name).replace("#pragma CMT", "#")
    nodes = _computed(schedule)
    produced = frozenset(buffer for node in nodes for buffer in node.get_buffer_names())
    real = dict(V.graph.scheduler.mutation_real_name)
    outputs = [output for node in nodes for output in node.get_outputs()]
    # The buffers that they write to without making them.
    changed = {name for output in outputs for name in output.get_mutations()}
    changed |= {real.get(name, name) for name in changed}
    buffers = {}
    for note in notes.buffers_of(kernel.args, produced, reach_of(nodes)):
        written_elsewhere = note.buffer in kernel.args.output_buffers
        if note.access is Access.READ and note.buffer in changed and not written_elsewhere:
            # A template may write to its listed inputs, such as the sums of attention.
            note = dataclasses.replace(note, access=Access.READ_WRITE)
        buffers[note.param] = note
    for workspace in getattr(kernel.args, "workspace_args", ()):
        param, buffer = workspace.inner_name, workspace.outer_name
        share = bytes_per_block(kernel)
        how: Any = (Access.READ_WRITE, share, share != 0)
        buffers[param] = notes.BufferNote(param, buffer, workspace.dtype, *how)
    accesses = (at for node in nodes for at in node.read_writes.reads_and_writes())
    # Each is by the name of the buffer that has the memory.
    touched = tuple(at.rename(real) for at in accesses if isinstance(at, MemoryDep))
    parts = (getattr(part, "_body", None) for node in nodes for part in node.get_nodes())
    bodies = tuple(body for body in parts if body is not None)  # templates have none
    return notes.TritonNote(name, code, name, buffers, notes.nodes_of(nodes), touched, bodies, real)


def _computed(schedule: Sequence[Any]) -> list[Any]:
    """Return the scheduled nodes that a kernel computes, of which Inductor may tell some only."""
    current: Any = V.graph.scheduler.current_node
    if isinstance(current, FusedNestedReductions):
        return list(current.get_nodes())
    return [node for node in schedule if hasattr(node, "get_buffer_names")]


def hint_for_export(error: Exception) -> str | None:
    """Return advice for an error of ``torch.export``, or None if no Triton kernel is to blame."""
    # A kernel that is called directly asks tensors without memory for their address.
    is_kernel = "data pointer" in str(error) or "from Triton" in str(error)
    return "kernels of Triton are exported through torch.library.wrap_triton" if is_kernel else None


def note_of_users_kernel(name: str, definition: str, args: Mapping[str, Any]) -> notes.TritonNote:
    """Return the note on a user's kernel and its arguments (by parameter) in the current node.

    ``definition`` is the Python expression with which Inductor defines it.
    """
    call: Any = ast.parse(definition.strip(), mode="eval").body
    entry, code = (ast.literal_eval(argument) for argument in call.args[:2])
    current: Any = V.graph.scheduler.current_node
    nodes = notes.nodes_of([current])
    user = next(node for node in nodes if isinstance(node, ir.UserDefinedTritonKernel))
    changed = {name for output in user.get_outputs() for name in output.get_mutation_names()}
    buffers = {}
    for param, value in args.items():
        if isinstance(value, ir.IRNode):
            # Fusion may have made the kernel write another buffer than the one that was passed.
            original: Any = user.kwargs[param]
            access = Access.READ_WRITE if original.get_name() in changed else Access.READ
            buffers[param] = notes.BufferNote(param, value.get_name(), value.get_dtype(), access)
    return notes.TritonNote(name, code.strip() + "\n", entry, buffers, nodes)
