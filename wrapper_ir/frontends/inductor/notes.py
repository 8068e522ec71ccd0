"""Typed facts that are known while Inductor schedules, and lost in the lines that it writes.

The mixin that records them for C++ is here; the one for Triton is in ``triton``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import sympy
import torch
from typing_extensions import override

from wrapper_ir.frontends.inductor import compat
from wrapper_ir.frontends.inductor.compat import V
from wrapper_ir.frontends.inductor.reach import reach_of
from wrapper_ir.lines.args import Access
from wrapper_ir.lines.kernels import ScalarType


@dataclass(frozen=True, slots=True)
class BufferNote:
    """A pointer parameter of a kernel: its name there, the buffer passed, and the access."""

    param: str
    buffer: str
    dtype: torch.dtype
    access: Access
    #: How many elements the kernel touches at least, from the first one on; 0 if that is unknown.
    reach: sympy.Expr = sympy.S.Zero
    is_per_block: bool = False  #: whether that is what each block of the grid touches
    #: The buffer that it holds before the call, which has another name if the kernel writes in
    #: place; empty if that is unknown.
    before: str = ""


@dataclass(frozen=True, slots=True)
class SizeNote:
    """A number parameter of a kernel: its name there and the expression passed."""

    param: str
    value: sympy.Expr
    type: ScalarType


@dataclass(frozen=True, slots=True)
class KernelNote:
    """A C++ kernel and the arguments of one call, recorded where Inductor defines it."""

    name: str  #: unique within a graph and its subgraphs
    code: str  #: its function is called ``name``
    params: tuple[BufferNote | SizeNote, ...]  #: each with what this call passes
    nodes: tuple[Any, ...]  #: the IR nodes that the kernel computes


@dataclass(frozen=True, slots=True)
class ControlNote:
    """Node or partition behind a run of lines that Inductor wrote as text."""

    node: Any  #: the node with subgraphs that wrote them, None for the call of a partition
    end: int  #: index of the line after the last
    partition: Any = None  #: the wrapper of the partition that they call


@dataclass(frozen=True, slots=True)
class PartNote:
    """A result that a kernel leaves as partial results, one per row of a matrix in its workspace.

    Inductor calls it a mix-order reduction: the kernel reduces the rows of its input, and at the
    same time the columns, separately for each block of rows. A line of text combines them.
    """

    buffer: str
    reduction: str  #: Inductor's name of the reduction that combines them: ``sum``, ``prod``
    workspace: str  #: the buffer that holds the matrices one after another, in float32
    position: int  #: index of this matrix
    rows: sympy.Expr
    columns: sympy.Expr  #: as many as the result has elements


@dataclass(frozen=True, slots=True)
class TritonNote:
    """A Triton kernel, recorded where Inductor defines it."""

    name: str  #: unique within a graph and its subgraphs
    code: str  #: Inductor's text, with the function's name filled in
    entry: str  #: the function's name: ``name``, or the user's name for it
    buffers: Mapping[str, BufferNote]  #: that this call passes, by parameter
    nodes: tuple[Any, ...]  #: the IR nodes that the kernel computes
    #: Accesses to memory in it, as far as Inductor knows them.
    touched: tuple[compat.MemoryDep, ...] = ()
    bodies: tuple[Any, ...] = ()  #: Inductor's loop bodies in it, in order
    #: Name of a buffer in loop bodies -> name of the buffer that has the memory.
    real: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AlternativesNote:
    """Equivalent kernels, of which Inductor's wrapper would choose one in a call.

    A call passes the arguments common to all of them, then the extra ones of each in order.
    """

    name: str  #: Inductor's joint name for them
    kernels: tuple[TritonNote, ...]
    extra: tuple[int, ...]  #: the number of extra arguments of each
    #: The argument shapes that each was tuned for if shapes decide; None if time does.
    shapes: tuple[tuple[tuple[int, ...], ...], ...] | None = None

    def taken_by(self, number: int, count: int) -> tuple[slice, slice]:
        """Return which of a call's ``passed`` arguments a kernel takes."""
        shared = count - sum(self.extra)
        begin = shared + sum(self.extra[:number])
        return slice(0, shared), slice(begin, begin + self.extra[number])


@dataclass(frozen=True, slots=True)
class ForeignNote:
    """A kernel in a language that programs do not hold."""

    name: str
    language: str  #: for people


CallNote: TypeAlias = KernelNote | TritonNote | AlternativesNote | ForeignNote
"""What a line calls: a kernel, or the one of several that is chosen."""


@dataclass(slots=True)
class LineNote:
    """A line with what is known of it, or a node that is converted as a whole."""

    line: Any = None
    writer: Any = None  #: the IR node that Inductor was generating code for
    call: CallNote | None = None  #: the kernel that it calls
    control: Any = None  #: a choice, a loop or a call of a subgraph, in place of its lines
    part: PartNote | None = None  #: the result that its text reduces from partial results
    handle: str = ""  #: of the call after a comment, in Inductor's provenance
    waits: bool = False  #: whether its text waits for the device


class NotingForeign(compat.Mixin):  # type: ignore[misc]  # of no type
    """Mixin that records the language of kernels; precedes Inductor's scheduling in the MRO."""

    language: str

    @override
    def define_kernel(self, *args: Any, **kwargs: Any) -> str:
        """Define a kernel as Inductor does, and leave a note for the next call."""
        name: str = super().define_kernel(*args, **kwargs)
        leave_note = getattr(V.graph.wrapper_code, "note_kernel", None)
        if leave_note is not None:
            leave_note(ForeignNote(name, self.language))
        return name


# Inductor's C++ kernels: a typed note of each definition, and the compiler's flags.
#
# Inductor's definition line holds one Python string, and its call line strings too. But where it
# calls ``define_kernel``, the source is plain C++ and the parameters are still objects: buffers by
# role, sizes as expressions. So the note is taken there.


class NotingCpp(compat.Mixin):  # type: ignore[misc]  # of no type
    """Mixin that records kernels in the wrapper; precedes Inductor's C++ scheduling in the MRO."""

    kernel_group: Any

    @override
    def define_kernel(self, src_code: str, nodes: Any, kernel_args: Any = None) -> str:
        """Define a kernel as Inductor does, and leave a note for the next call."""
        name: str = super().define_kernel(src_code, nodes, kernel_args)
        leave_note = getattr(V.graph.wrapper_code, "note_kernel", None)
        if leave_note is not None:
            args = self.kernel_group.args if kernel_args is None else kernel_args
            leave_note(kernel_note(name, src_code, args, nodes))
        return name


def kernel_note(
    name: str, src_code: str, args: compat.KernelArgs, nodes: Sequence[Any]
) -> KernelNote:
    """Return the note on a kernel: its source under its own name, and its parameters."""
    code = src_code.replace(str(compat.Placeholder.KERNEL_NAME), name)
    code = code.replace(str(compat.Placeholder.DESCRIPTIVE_NAME), name)
    code = code.replace("#pragma CMT", "//")
    produced = frozenset(buffer for node in nodes for buffer in node.get_buffer_names())
    reach = reach_of(nodes)
    params: tuple[BufferNote | SizeNote, ...] = (*buffers_of(args, produced, reach), *_sizes(args))
    return KernelNote(name, code.strip() + "\n", params, nodes_of(nodes))


def buffers_of(
    args: compat.KernelArgs, produced: frozenset[str], reach: Mapping[str, sympy.Expr]
) -> Iterator[BufferNote]:
    """Yield the pointers in the order of ``KernelArgs.cpp_argdefs``.

    The access is the narrowest one that is certain. A fused kernel need not read what it computes
    itself, even if that is passed as an in-out pointer: then the first name of the storage is one
    of the kernel's own buffers. A buffer that the kernel writes but does not make is changed in
    place, perhaps in part, so its old contents count as read.
    """
    seen: set[int] = set()
    inplaced: Any
    for inplaced in args.inplace_buffers.values():
        if args._buffer_is_marked_removed(inplaced) or id(inplaced) in seen:
            continue
        seen.add(id(inplaced))
        access = Access.WRITE if inplaced.other_names[0] in produced else Access.READ_WRITE
        ends = (reach.get(name, sympy.S.Zero) for name in inplaced.other_names)
        before = inplaced.other_names[0] if access is Access.READ_WRITE else ""
        end = sympy.Max(*ends)
        yield _note(inplaced.inner_name, inplaced.other_names[-1], access, end, before)
    for outer, inner in args.input_buffers.items():
        if outer not in args.inplace_buffers:
            yield _note(inner, outer, Access.READ, reach.get(outer, sympy.S.Zero), outer)
    mutated = frozenset(V.graph.scheduler.mutation_real_name.values())
    for outer, maybe in args.output_buffers.items():
        if outer in args.inplace_buffers or args._buffer_is_marked_removed(maybe):
            continue
        partial = outer in mutated and outer not in produced
        access = Access.READ_WRITE if partial else Access.WRITE
        yield _note(str(maybe), outer, access, reach.get(outer, sympy.S.Zero))


def _note(
    param: str, buffer: str, access: Access, reach: sympy.Expr, before: str = ""
) -> BufferNote:
    dtype = V.graph.get_dtype(buffer)
    return BufferNote(param, buffer, dtype, access, reach, before=before)


def _sizes(args: compat.KernelArgs) -> Iterator[SizeNote]:
    for value, param in args.sizevars.items():
        kind = compat.SymT.UNBACKED_FLOAT
        is_float = isinstance(value, sympy.Symbol) and compat.symbol_is_type(value, kind)
        yield SizeNote(param, value, ScalarType.FLOAT32 if is_float else ScalarType.INT64)


def nodes_of(nodes: Sequence[Any]) -> tuple[Any, ...]:
    """Return the IR nodes of scheduled nodes."""
    ir_nodes = (inner.node for node in nodes for inner in node.get_nodes())
    return tuple(node for node in ir_nodes if node is not None)
