"""Typed facts that are known while Inductor schedules, and lost in the lines that it writes."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import sympy
import torch

from wrapper_ir.lines.args import Access


@dataclass(frozen=True, slots=True)
class BufferNote:
    """A pointer parameter of a kernel: its name there, the buffer passed, and the access."""

    param: str
    buffer: str
    dtype: torch.dtype
    access: Access


class SizeType(enum.Enum):
    """The C type of a number that a kernel takes."""

    INT64 = "int64_t"
    FLOAT = "float"


@dataclass(frozen=True, slots=True)
class SizeNote:
    """A number parameter of a kernel: its name there and the expression passed."""

    param: str
    value: sympy.Expr
    type: SizeType = SizeType.INT64


@dataclass(frozen=True, slots=True)
class KernelNote:
    """A C++ kernel and the arguments of one call to it, noted where Inductor defines it.

    Attributes:
        name: Inductor's name of the kernel, unique within a graph and its subgraphs.
        code: The source, with the function's name filled in: it is ``name``.
        params: The parameters in order, each with what this call passes.
        nodes: The IR nodes that the kernel computes.
    """

    name: str
    code: str
    params: tuple[BufferNote | SizeNote, ...]
    nodes: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class ControlNote:
    """Node or partition behind a run of lines that Inductor wrote as text.

    Attributes:
        node: The node with subgraphs that wrote them, None for the call of a partition.
        end: Index of the line after the last.
        partition: The wrapper of the partition that they call.
    """

    node: Any
    end: int
    partition: Any = None


@dataclass(frozen=True, slots=True)
class PartNote:
    """A result that a kernel leaves in parts, one a row of a matrix in its workspace.

    Inductor calls it a mix-order reduction: the kernel reduces the rows of what it reads, and on
    the way the columns too, each block of rows for itself. A line of text makes the whole of it.

    Attributes:
        buffer: The result.
        reduction: How parts become the whole, in Inductor's word: ``sum``, ``prod``.
        workspace: Where the matrices lie, one after the other, of float32.
        position: Which of them it is.
        rows: Parts of each result.
        columns: Elements of each part, as many as the result has.
    """

    buffer: str
    reduction: str
    workspace: str
    position: int
    rows: sympy.Expr
    columns: sympy.Expr


@dataclass(frozen=True, slots=True)
class TritonNote:
    """A Triton kernel, noted where Inductor defines it.

    Attributes:
        name: Inductor's name of the kernel, unique within a graph and its subgraphs.
        code: Inductor's text, with the function's name filled in.
        entry: The function's name: ``name``, or what the user called it.
        buffers: What this call passes for each pointer, by the parameter's name.
        nodes: The IR nodes that the kernel computes.
    """

    name: str
    code: str
    entry: str
    buffers: Mapping[str, BufferNote]
    nodes: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class AlternativesNote:
    """Kernels that compute the same, of which Inductor's wrapper would choose one in a call.

    A call passes what all of them take, and then what each takes besides, one after the other.

    Attributes:
        name: Inductor's name for all of them together.
        kernels: The kernels, in Inductor's order.
        extra: How many arguments each one takes besides, in the same order.
        shapes: For which shapes of its arguments each was tuned, where shapes decide; None where
            time does.
    """

    name: str
    kernels: tuple[TritonNote, ...]
    extra: tuple[int, ...]
    shapes: tuple[tuple[tuple[int, ...], ...], ...] | None = None

    def taken_by(self, number: int, passed: int) -> tuple[slice, slice]:
        """Return which arguments of a call a kernel takes, of so many that are passed."""
        shared = passed - sum(self.extra)
        begin = shared + sum(self.extra[:number])
        return slice(0, shared), slice(begin, begin + self.extra[number])


CallNote: TypeAlias = KernelNote | TritonNote | AlternativesNote
"""What a line calls: a kernel, or the one of several that is chosen."""
