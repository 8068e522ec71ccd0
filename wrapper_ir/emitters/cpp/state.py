"""The place of each buffer at run time, and the state that ``create_state`` makes for calls."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import wrapper_ir.lines as ir
from wrapper_ir.analysis.kept import View, source_of
from wrapper_ir.emitters.cpp import literals
from wrapper_ir.emitters.cpp.exprs import parameter_type
from wrapper_ir.emitters.cpp.literals import call, device_index, device_type
from wrapper_ir.emitters.kernel_types import ELEMENTS
from wrapper_ir.toolchain.manifest import Part

if TYPE_CHECKING:
    from wrapper_ir.emitters.cpp.context import Context


# Places: the C++ expressions for a buffer's handle and address.


def element_type(dtype: ir.DType) -> str:
    """Return the C++ type of an element; ``void`` if only kernels, not the wrapper, have one."""
    spelled = ELEMENTS.get(dtype, "void")
    if "::" in spelled:
        return "void"
    return f"std::{spelled}" if spelled.endswith("_t") else spelled


def pointer_to(param: ir.BufferParam) -> str:
    """Return the type of a kernel's pointer parameter."""
    element = element_type(param.dtype)
    return f"const {element}*" if param.access is ir.Access.READ else f"{element}*"


def parameter_spelling(param: ir.Param) -> str:
    """Return the type of a kernel's parameter as the wrapper declares it, with the same ABI."""
    if isinstance(param, ir.BufferParam):
        return pointer_to(param)
    return parameter_type(param.type).value


@dataclass(slots=True)
class Place:
    """The place of a buffer, in one function.

    Its handle may be that of another view of the same storage: kernels need only an address, and
    making a tensor costs as much as a small kernel.

    Attributes:
        handle: The expression of the handle.
        dtype: The handle's element type.
        origin: From the handle's first element to the start of the storage, in bytes; layouts
            count from the latter.
        owned: Whether the handle is a ``wir::Tensor`` that may be moved from and reset.
        exact: Whether the handle is a tensor with exactly this buffer's layout.
        pointer: The variable that holds the address of the buffer's first element, if any.
        stale: Whether that address must be looked up again before use.
        input: Position of the input that owns the handle and is released with the buffer.
        in_state: Whether the handle is a member of the state.
    """

    handle: str
    dtype: ir.DType
    origin: ir.Dim = 0
    owned: bool = False
    exact: bool = True
    pointer: str | None = None
    stale: bool = False
    input: int | None = None
    in_state: bool = False

    def start(self, layout: ir.Layout) -> ir.Dim:
        """Return the bytes from the handle's first element to that of a view of the storage."""
        return ir.dim(self.origin + layout.offset * layout.dtype.itemsize)


def place_of(handle: str, layout: ir.Layout, *, owned: bool) -> Place:
    """Return the place of a buffer whose handle has exactly its layout."""
    return Place(handle, layout.dtype, ir.dim(-layout.offset * layout.dtype.itemsize), owned)


def takes_tensors(line: ir.KernelCall, program: ir.Program) -> bool:
    """Return whether a call passes tensors, rather than addresses, to a kernel."""
    language = program.kernels[line.kernel].source.language
    return language is not None and line.device.kind.launches_by_python(language)


def needs_handle(region: ir.Region, context: Context) -> frozenset[str]:
    """Return the buffers that must be tensors, because some use does not take addresses."""
    found: set[str] = set()
    for line in region.body:
        match line:
            case ir.KernelCall() if not takes_tensors(line, context.program):
                continue
            case ir.Free() | ir.Reinterpret() | ir.Reuse() | ir.AllocateFromPool():
                continue
            case ir.ExternKernel() if context.product(line) is not None:
                continue
            case ir.Allocate() | ir.AllocatePool():
                found.add(line.out)
            case _:
                rows = context.rows(line)
                touched = ir.effects(line, context.program).touched
                found.update(touched if rows is None else (rows.out, rows.left, rows.right))
    found.update(value.buffer for value in region.results if hasattr(value, "buffer"))
    return frozenset(found)


# The state of a program, made by ``create_state`` and used by calls.
#
# Members are added on first use, so the state holds nothing that is not used.


class StateMembers:
    """The members of the state."""

    def __init__(self, context: Context) -> None:
        self._context = context

        self._handles: dict[str, Place] = {}
        self._pointers: dict[str, str] = {}
        self._kept_bytes = 0
        self._fills = False
        self._held: list[str] = []  # expressions for the bytes of members that grow
        self._constants = {name: n for n, name in enumerate(context.program.constants)}

    def has(self, name: str) -> bool:
        """Return whether a buffer lives in the state."""
        return name in self._constants or self._context.kept.is_ready(name)

    def handle(self, name: str) -> Place:
        """Return a buffer as a tensor of its layout."""
        if name not in self._handles:
            self._handles[name] = self._make(name)
        return self._handles[name]

    def shown(self, name: str) -> Place:
        """Return a tensor of a buffer's storage without a new member, perhaps of another layout."""
        if name in self._context.kept.views and name not in self._handles:
            return replace(self.base(name), exact=False)
        return self.handle(name)

    def base(self, name: str) -> Place:
        """Return a tensor of a buffer's storage, perhaps of another layout."""
        view = self._context.kept.views.get(name)
        if view is None or name in self._handles:
            return self.handle(name)
        source = self.base(source_of(view))
        if isinstance(view, ir.AllocateFromPool):
            return replace(source, origin=ir.dim(source.origin + view.offset))
        return source

    def pointer(self, name: str) -> str:
        """Return the address of a buffer's first element."""
        if name not in self._pointers:
            self._pointers[name] = self._look_up(name)
        return self._pointers[name]

    def arena(self, name: str) -> str:
        """Add the member for a kept pool, allocated at once if its size is fixed."""
        member = self._context.buffer(name)
        self._context.headers.add("arena")
        layout = self._context.program.layout(name)
        size, where = layout.nbytes, ""
        if layout.device.type != "cpu":
            where = f", {device_type(layout.device)}, {device_index(layout.device)}"
        grows_on = f"{{0{where}}}" if where and not isinstance(size, int) else ""
        self._member(f"wir::Arena {member}{grows_on};")
        if isinstance(size, int):
            self._fill(member, f"wir::Arena({size}{where})")
            self._kept_bytes += size
        else:
            self._held.append(f"state.{member}.bytes()")
        return f"state.{member}"

    def load_kernel(self, name: str, device: str) -> None:
        """Load a kernel when the state is created."""
        self._put(f"{name}.load({device});")

    def piece(self, name: str) -> None:
        """Add the member that runs a piece and keeps its graphs."""
        self._member(f"std::unique_ptr<wir::Piece> {name};")
        self._fill(name, f"std::make_unique<wir::Piece>({name}_info)")
        self._held.append(f"state.{name}->kept_bytes()")

    def heap(self) -> str:
        """Add the member that serves library ops and results."""
        self._context.headers.add("heap")
        self._context.parts.add(Part.HEAP)
        self._member("wir::Heap heap;")
        self._held.append("state.heap.bytes()")
        return "state.heap"

    @property
    def fills(self) -> bool:
        """True if members of a new state get values."""
        return self._fills

    @property
    def grows(self) -> bool:
        """True if a state may hold more memory from call to call."""
        return bool(self._held)

    def kept_bytes(self) -> str | None:
        """Return an expression for the bytes that a state holds; None if it never holds any."""
        known = [str(self._kept_bytes)] if self._kept_bytes else []
        return " + ".join([*known, *self._held]) or None

    def _look_up(self, name: str) -> str:
        program = self._context.program
        view, layout = self._context.kept.views.get(name), program.layout(name)
        if isinstance(view, ir.Reuse) and program.layout(view.donor) == layout:
            return self.pointer(view.donor)
        base = self.base(name)
        member = self._context.names.fresh(f"{self._context.buffer(name)}_ptr")
        type_ = element_type(layout.dtype)
        self._member(f"{type_}* {member} = nullptr;")
        self._fill(member, make_data(base, layout, str(base.start(layout))))
        return f"state.{member}"

    def _make(self, name: str) -> Place:
        view = self._context.kept.views.get(name)
        if view is not None:
            return self._make_view(name, view)
        if name in self._context.kept.arenas:
            return Place(self.arena(name), ir.DType.UINT8, exact=False, in_state=True)
        layout = self._context.program.layout(name)
        member = self._context.buffer(name)
        if name in self._constants:
            self._member(f"AtenTensorHandle {member} = nullptr;")
            self._fill(member, f"constants[{self._constants[name]}]")
        else:
            self._member(f"wir::Tensor {member};")
            args = (*self._dims(layout), self._context.options(layout))
            self._fill(member, call("wir::empty", *args))
            assert isinstance(layout.nbytes, int)
            self._kept_bytes += layout.nbytes
        return self._place(member, layout)

    def _make_view(self, name: str, view: View) -> Place:
        program = self._context.program
        layout, source = program.layout(name), source_of(view)
        if isinstance(view, ir.Reuse) and program.layout(source) == layout:
            return self.handle(source)
        base = self.base(name)
        member = self._context.buffer(name)
        self._member(f"wir::Tensor {member};")
        start = base.start(layout)
        assert isinstance(start, int)
        elements = start // layout.dtype.itemsize
        made = make_view(base, layout, self._dims(layout), str(start), str(elements))
        self._fill(member, made)
        return self._place(member, layout)

    def _dims(self, layout: ir.Layout) -> tuple[str, str, str]:
        size, stride = self._context.array(layout.size), self._context.array(layout.stride)
        assert size is not None
        assert stride is not None
        return str(layout.rank), size, stride

    @staticmethod
    def _place(member: str, layout: ir.Layout) -> Place:
        return replace(place_of(f"state.{member}", layout, owned=False), in_state=True)

    def _member(self, text: str) -> None:
        self._context.section("state").line(text)

    def _fill(self, member: str, value: str) -> None:
        self._fills = True
        self._put(f"state.{member} = {value};")

    def _put(self, text: str) -> None:
        writer = self._context.section("create")
        with writer.indent():
            self._context.put(writer, text)


def make_view(
    base: Place, layout: ir.Layout, dims: tuple[str, str, str], start: str, elements: str
) -> str:
    """Return a call that makes a view of a place's storage, at an offset from its start."""
    if base.dtype is layout.dtype:
        return call("wir::view", base.handle, *dims, elements)
    return call("wir::view_as", base.handle, literals.dtype(layout.dtype), *dims, start)


def make_data(base: Place, layout: ir.Layout, start: str) -> str:
    """Return a call that gives the address ``start`` bytes after a place's first element."""
    type_ = element_type(layout.dtype)
    if start == "0":
        return call(f"wir::data<{type_}>", base.handle)
    return call(f"wir::data_at<{type_}>", base.handle, start)
