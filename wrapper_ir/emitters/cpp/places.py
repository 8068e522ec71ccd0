"""The place of each buffer at run time: the C++ that gives its handle, and its address."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wrapper_ir.emitters.kernel_types import ELEMENTS
from wrapper_ir.lines.dtype import DType
from wrapper_ir.lines.effects import effects
from wrapper_ir.lines.expr import Dim, dim
from wrapper_ir.lines.kernels import ExternKernel, KernelCall
from wrapper_ir.lines.memory import (
    Allocate,
    AllocateFromPool,
    AllocatePool,
    Free,
    Reinterpret,
    Reuse,
)

if TYPE_CHECKING:
    from wrapper_ir.emitters.cpp.products import Products
    from wrapper_ir.lines.control import Region
    from wrapper_ir.lines.layout import Layout
    from wrapper_ir.lines.program import Program


def element_type(dtype: DType) -> str:
    """The C++ type of an element; ``void`` where only kernels, not the wrapper, have one."""
    spelled = ELEMENTS.get(dtype, "void")
    if "::" in spelled:
        return "void"
    return f"std::{spelled}" if spelled.endswith("_t") else spelled


@dataclass(slots=True)
class Place:
    """The place of a buffer, in one function.

    Its handle may be that of another view of the same storage: kernels need no more than an
    address, and making a tensor costs as much as a small kernel.

    Attributes:
        handle: What gives the handle.
        dtype: The handle's element type.
        origin: From the handle's first element to the start of the storage, in bytes; layouts
            count from there.
        owned: Whether the handle is a ``wir::Tensor`` that may be moved from and reset.
        exact: Whether the handle is a tensor of just this buffer's layout.
        pointer: The variable that holds the address of the buffer's first element, if any.
        stale: Whether that has to be looked up again before it is used.
        input: Position of the input whose handle it is, where its end is the input's.
        in_state: Whether the handle is a member of the state.
    """

    handle: str
    dtype: DType
    origin: Dim = 0
    owned: bool = False
    exact: bool = True
    pointer: str | None = None
    stale: bool = False
    input: int | None = None
    in_state: bool = False

    def start(self, layout: Layout) -> Dim:
        """From the handle's first element to that of a view of the storage, in bytes."""
        return dim(self.origin + layout.offset * layout.dtype.itemsize)


def place_of(handle: str, layout: Layout, *, owned: bool) -> Place:
    """The place of a buffer whose handle has its very layout."""
    return Place(handle, layout.dtype, dim(-layout.offset * layout.dtype.itemsize), owned)


def needs_handle(region: Region, program: Program, products: Products) -> frozenset[str]:
    """The buffers that something looks at which does not take addresses: they must be tensors."""
    found: set[str] = set()
    for line in region.body:
        match line:
            case KernelCall() | Free() | Reinterpret() | Reuse() | AllocateFromPool():
                continue
            case ExternKernel() if products.of(line) is not None:
                continue
            case Allocate() | AllocatePool():
                found.add(line.out)
            case _:
                found.update(effects(line, program).touched)
    found.update(value.buffer for value in region.results if hasattr(value, "buffer"))
    return frozenset(found)
