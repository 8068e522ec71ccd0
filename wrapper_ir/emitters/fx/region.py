"""Graphs under construction: one for the program, one for each of its regions.

Convention: *views are taken of storages, not of views*. For each buffer the builder knows a node
whose tensor starts at the start of the buffer's storage (:class:`Storage`), and creates every view
from that node. So the offset of a view depends on the program alone, not on the storage offset of a
tensor that a caller passes in, and functionalization can regenerate each view from the one value
that was written to. A result that conjugates or negates the memory it shares counts as a storage of
its own: a view of its argument would read other values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import sympy
import torch
from torch import fx
from typing_extensions import override

import wrapper_ir.lines as ir
from wrapper_ir.devices import named
from wrapper_ir.emitters.fx.context import free_place
from wrapper_ir.emitters.fx.exprs import lower
from wrapper_ir.emitters.fx.graph_module import CallTracer
from wrapper_ir.emitters.fx.peers import PeerBuffer
from wrapper_ir.emitters.regions import RegionWalker
from wrapper_ir.lines.expr import ceil_divided, divided
from wrapper_ir.lines.memory import own_memory
from wrapper_ir.runtime.peers import empty_for_peers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from wrapper_ir.emitters.fx.context import Context


_aten = torch.ops.aten

_COMMENTS: Final = "wrapper_ir_comments"

_VIEWS: Final = frozenset(
    (_aten.as_strided.default, _aten.view.default, _aten.view.dtype, _aten.slice.Tensor)
)


@dataclass(frozen=True, slots=True)
class Storage:
    """Memory, represented by a node to take views of.

    Attributes:
        node: The node of its tensor.
        dtype: The tensor's element type.
        start: The byte at which the tensor starts, relative to the storage's owner.
        is_whole: True if the tensor has storage offset 0. This holds for allocations of the graph,
            not in general for tensors from outside.
        numel: The tensor's number of elements, if it has no gaps.
    """

    node: fx.Node
    dtype: ir.DType
    start: ir.Dim = 0
    is_whole: bool = False
    numel: ir.Dim | None = None


@dataclass(frozen=True, slots=True)
class Bound:
    """The binding of a buffer name: a tensor and the storage that it is a view of.

    ``is_direct`` is True if the tensor is the storage's own or a direct view of it.
    """

    node: fx.Node
    storage: Storage
    is_direct: bool = True


class RegionBase(RegionWalker["Context"]):
    """A builder of one region's graph, without the rendering of specific lines."""

    def __init__(self, context: Context, region: ir.Region) -> None:
        super().__init__(context, region)
        self.graph: fx.Graph = fx.Graph(tracer_cls=CallTracer)
        #: The module with the graphs of nested regions and the program's constants.
        self.root: Any = torch.nn.Module()
        self.bound: dict[str, Bound] = {}
        #: Results of library ops with memory of their own that nothing has used yet.
        self.fresh: set[str] = set()
        self.symbols: dict[str, Any] = {}
        self.objects: dict[str, fx.Node] = {}
        self._made: dict[object, fx.Node] = {}
        self._remarks: list[str] = []
        self._line: ir.AnyLine | None = None

    # Walking.

    @override
    def render_line(self, line: ir.AnyLine) -> None:
        self._line = line
        self.refuse_streams(line, "graphs run")
        self.visit(line)

    def finish(self, result: Any) -> None:
        """Add the output node."""
        self._line = None
        self.path: ir.Path = ir.Path()
        self._annotate(self.graph.output(result))
        self._drop_unused_views()

    def _drop_unused_views(self) -> None:
        """Remove views that turned out to be unused, and move their comments to the next node."""
        for node in reversed(self.graph.nodes):
            if node.target in _VIEWS and not node.users:
                for key in node.meta.keys() & {_COMMENTS}:
                    node.next.meta[key] = (*node.meta[key], *node.next.meta.get(key, ()))
                self.graph.erase_node(node)

    def value(self, value: ir.Value) -> Any:
        """Return the node or number of a result of a program or region."""
        match value:
            case ir.BufferValue():
                return self.node(value.buffer)
            case ir.NoneValue():
                return None
            case _:
                return self.number(value.value)

    @override
    def unsupported(self, line: ir.AnyLine, reason: str) -> None:
        super().unsupported(line, reason)
        line_effects = ir.effects(line, self.context.program)
        for name in line_effects.defines:  # dummies for the lines that follow
            if name not in self.bound:
                self.bind(name, self.call(_aten.empty.memory_format, [0]))
        for name in line_effects.defines_symbols:
            self.symbols.setdefault(name, 0)

    # Buffers.

    def node(self, name: str) -> fx.Node:
        """Return the node of a buffer."""
        return self.bound[name].node

    def bind(
        self, name: str, node: fx.Node, storage: Storage | None = None, *, is_direct: bool = True
    ) -> None:
        """Bind a buffer to a node that views a storage, or that is its own storage."""
        layout = self.layout(name)
        if storage is None:
            start = ir.dim(layout.offset * layout.dtype.itemsize)
            numel = layout.numel if layout.is_contiguous else None
            storage = Storage(node, layout.dtype, start, numel=numel)
        self.bound[name] = Bound(node, storage, is_direct)
        node.meta["wrapper_ir_type"] = type_text(layout)
        self.context.values.tensor(node, layout)

    # Nodes.

    def call(
        self, target: Callable[..., Any], *args: Any, name: str | None = None, **kwargs: Any
    ) -> fx.Node:
        """Add a node that calls a function."""
        preferred = None if name is None else self.context.wanted_name(name)
        node = self.graph.create_node("call_function", target, args, kwargs, preferred)
        self._annotate(node)
        return node

    def placeholder(self, name: str) -> fx.Node:
        """Add an input of the graph."""
        node = self.graph.placeholder(self.context.wanted_name(name))
        self._annotate(node)
        return node

    def attribute(self, target: str, name: str) -> fx.Node:
        """Add a node that gets an attribute of the module."""
        node = self.graph.create_node("get_attr", target, name=self.context.wanted_name(name))
        self._annotate(node)
        return node

    def remark(self, text: str) -> None:
        """Attach a comment to the next node."""
        self._remarks.append(text)

    def _annotate(self, node: fx.Node) -> None:
        """Record a node's path, origin and comments in its metadata."""
        if self.path:
            node.meta["wrapper_ir_path"] = str(self.path)
        if self._line is not None:
            node.meta.update(self.context.origin_meta(self._line))
        if self._remarks:
            node.meta[_COMMENTS] = tuple(self._remarks)
            self._remarks.clear()

    # Numbers.

    def number(self, value: ir.Scalar) -> Any:
        """Return a number, or the node that computes it; equal expressions share nodes."""
        if isinstance(value, complex):
            # A complex literal in a graph's code would lose the sign of a zero.
            return self.apply(complex, value.real, value.imag)
        return lower(value, self.symbols.__getitem__, self.apply)

    def numbers(self, values: Iterable[ir.Dim]) -> list[Any]:
        """Return sizes or strides as numbers or nodes."""
        return [self.number(value) for value in values]

    def apply(self, function: Callable[..., Any], *args: Any) -> Any:
        """Apply a function to numbers: at once if all are known, or in a node that is shared."""
        if function is not complex and not any(isinstance(arg, fx.Node) for arg in args):
            return function(*args)
        key = (function, tuple((type(arg), repr(arg)) for arg in args))
        if key not in self._made:
            node = self.call(function, *args)
            self.context.values.computed(node)
            self._made[key] = node
        return self._made[key]

    # Views.

    def empty(self, layout: ir.Layout, name: str, line: ir.Allocate | ir.AllocatePool) -> fx.Node:
        """Allocate uninitialized memory, in the way that ``line`` allocates it."""
        size, stride = self.numbers(layout.size), self.numbers(layout.stride)
        dtype = torch_dtype(layout.dtype)
        allocator = self._own_allocator(line)
        if allocator is not None:
            node = self.call(allocator, size, stride, dtype, name=name)
        elif line.memory is ir.MemoryKind.SYMMETRIC:
            node = self._for_peers(line, size, stride, dtype, name)
        else:
            keywords = {"dtype": dtype, "device": torch.device(str(layout.device))}
            if line.memory is ir.MemoryKind.PINNED:
                keywords["pin_memory"] = True
            node = self.call(_aten.empty_strided.default, size, stride, name=name, **keywords)
        self.context.values.tensor(node, layout)
        return node

    def _own_allocator(self, line: ir.Allocate | ir.AllocatePool) -> Callable[..., Any] | None:
        """Return the device's own allocator for a line, or None for torch's or after a refusal."""
        own = own_memory(line, self.layout(line.out))
        if own is None:
            return None
        problem = own.problem(own.python, "Python")
        if not problem:
            try:
                allocator: Callable[..., Any] = named(own.python)
            except (ImportError, AttributeError) as error:
                problem = f"the allocator of the {own.name} cannot be imported: {error}"
            else:
                return allocator
        self.unsupported(line, problem)
        return None

    def _for_peers(
        self,
        line: ir.Allocate | ir.AllocatePool,
        size: list[Any],
        stride: list[Any],
        dtype: torch.dtype,
        name: str,
    ) -> fx.Node:
        """Allocate memory that peers address, or take that of an earlier call."""
        device = torch.device(str(self.layout(line.out).device))
        if not line.kept:
            return self.call(empty_for_peers, size, stride, dtype, device, name=name)
        target = free_place(f"peers_{name}", self.context.places.values())
        self.root.add_module(target, PeerBuffer(device))
        args, wanted = (size, stride, dtype), self.context.wanted_name(name)
        node = self.graph.create_node("call_module", target, args, {}, wanted)
        self._annotate(node)
        return node

    def row(self, storage: Storage, first: ir.Dim, last: ir.Dim) -> fx.Node:
        """Return the elements of a storage from ``first`` up to ``last`` as a 1-d view.

        It avoids ``as_strided`` below another view where possible: torch cannot functionalize
        graphs that write to such a view.
        """
        if storage.is_whole:
            args = ([self.number(ir.dim(last - first))], [1], self.number(first))
            return self.call(_aten.as_strided.default, storage.node, *args)
        if storage.numel is None:
            flat = self.call(_aten.as_strided.default, storage.node, [self.number(last)], [1])
            end = last
        else:
            flat = self.call(_aten.view.default, storage.node, [self.number(storage.numel)])
            end = storage.numel
        if first == 0 and last == end:
            return flat
        return self.call(_aten.slice.Tensor, flat, 0, self.number(first), self.number(last))

    def window(self, storage: Storage, dtype: ir.DType, start: ir.Dim, count: ir.Dim) -> fx.Node:
        """Return ``count`` elements of a dtype as a 1-d view, ``start`` bytes into the storage.

        The view is of a row of whole elements of the storage's own dtype.
        """
        begin, old, new = ir.dim(start - storage.start), storage.dtype.itemsize, dtype.itemsize
        first, last = divided(begin, old), ceil_divided(ir.dim(begin + count * new), old)
        row = self.row(storage, first, last)
        if dtype is not storage.dtype:
            row = self.call(_aten.view.dtype, row, torch_dtype(dtype))
        skipped = divided(ir.dim(begin - first * old), new)
        if skipped == 0 and divided(ir.dim((last - first) * old), new) == count:
            return row
        edges = self.numbers((skipped, ir.dim(skipped + count)))
        return self.call(_aten.slice.Tensor, row, 0, *edges)

    def view(self, storage: Storage, layout: ir.Layout, base: ir.Dim, name: str) -> fx.Node:
        """Return a view of a storage.

        The layout's offset is relative to the byte ``base``.
        """
        if layout.is_opaque:  # it has no views
            return storage.node
        size, stride = self.numbers(layout.size), self.numbers(layout.stride)
        start = self._existing(
            storage, layout, ir.dim(base + layout.offset * layout.dtype.itemsize)
        )
        begin = ir.dim(start - storage.start)
        as_strided = _aten.as_strided.default
        if layout.dtype is storage.dtype and storage.is_whole:
            offset = self.number(divided(begin, layout.dtype.itemsize))
            return self.call(as_strided, storage.node, size, stride, offset, name=name)
        if layout.dtype is storage.dtype and begin == 0:
            return self.call(as_strided, storage.node, size, stride, name=name)
        window = self.window(storage, layout.dtype, start, layout.clamped_extent)
        if layout.is_contiguous:
            return self.call(_aten.view.default, window, size, name=name)
        return self.call(as_strided, window, size, stride, name=name)

    def _existing(self, storage: Storage, layout: ir.Layout, start: ir.Dim) -> ir.Dim:
        """Return a view's offset, clamped to the storage, as an empty view may start beyond it."""
        begin = ir.dim(start - storage.start)
        is_known = layout.dtype is storage.dtype and (storage.is_whole or storage.numel is not None)
        if begin == 0 or not self.context.may_be_empty(layout):
            return start
        if storage.is_whole and (is_known or 0 not in layout.size):
            return start
        if is_known:
            first = sympy.Min(divided(begin, layout.dtype.itemsize), storage.numel)
            return ir.dim(storage.start + first * layout.dtype.itemsize)
        return ir.dim(storage.start + begin * sympy.Min(1, layout.clamped_extent))


def type_text(layout: ir.Layout) -> str:
    """Return dtype and sizes in the program's symbols: ``f32[s0, 4]``."""
    return f"{layout.dtype.short}[{', '.join(map(str, layout.size))}]"


def torch_dtype(dtype: ir.DType) -> torch.dtype:
    """Return torch's object for a dtype."""
    found: torch.dtype = getattr(torch, dtype.torch_name)
    return found
