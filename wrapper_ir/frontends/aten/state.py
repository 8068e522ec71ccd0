"""State of a conversion: names, layouts, symbols, storage, and errors so far."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import sympy
import torch

from wrapper_ir.frontends.aten.errors import Problem
from wrapper_ir.frontends.common.expressions import to_dim, to_scalar
from wrapper_ir.frontends.common.origins import origin_of
from wrapper_ir.lines.args import Relation
from wrapper_ir.lines.dtype import DType
from wrapper_ir.lines.expr import Dim, Scalar, dim, free_symbols, real_symbol, scalar, symbol
from wrapper_ir.lines.kernels import KernelDefinition
from wrapper_ir.lines.layout import Device, Layout
from wrapper_ir.lines.origin import Origin
from wrapper_ir.lines.program import Constant, SymbolInfo, SymbolKind

if TYPE_CHECKING:
    from torch.fx import Node

__all__ = [
    "POISON",
    "SYMBOLIC",
    "KernelOp",
    "Ref",
    "State",
    "UnsupportedNodeError",
    "elements",
    "is_guard",
    "target_of",
    "tensors_in",
    "to_device",
    "to_dtype",
]

SYMBOLIC: Final = (torch.SymInt, torch.SymFloat, torch.SymBool)
"""Torch's symbolic numbers."""


class UnsupportedNodeError(Exception):
    """The node being converted has no form; says why. Never leaves this package."""


@dataclass(frozen=True, slots=True)
class Ref:
    """The value of a node that is a tensor: the buffer that holds it."""

    name: str


@dataclass(frozen=True, slots=True)
class KernelOp:
    """Signature of a kernel's op: memories, then the kernel's arguments.

    Attributes:
        definition: The kernel.
        memories: For each parameter that is part of a memory its number; see the emitter's
            ``KernelForm``.
    """

    definition: KernelDefinition
    memories: tuple[int | None, ...] = ()

    @property
    def count(self) -> int:
        """Number of memories that it takes."""
        return len({number for number in self.memories if number is not None})

    def memory(self, position: int) -> int | None:
        """The memory that a parameter is part of."""
        return self.memories[position] if self.memories else None


POISON: Final = object()
"""The value of a node that could not be converted: what uses it is passed over in silence."""


def to_dtype(dtype: torch.dtype) -> DType:
    """Return the element type.

    Raises:
        UnsupportedNodeError: The IR has no such type.
    """
    try:
        return DType.from_torch_name(str(dtype))
    except KeyError:
        raise UnsupportedNodeError(f"the IR has no element type {dtype}") from None


def to_device(device: torch.device) -> Device:
    """Return the device; a CPU has no index."""
    return Device(device.type, None if device.type == "cpu" else device.index)


@dataclass(slots=True)
class State:
    """State of the whole program, which grows while its graphs are converted.

    Attributes:
        ranges: Inclusive bounds of torch's symbols, by name.
        hints: Typical values of torch's symbols, by name.
        buffers: Layout of every name.
        symbols: What is known of every symbol that is bound.
        constants: The tensors that belong to the program.
        data: Their values.
        definitions: Ops and kernels, in the order of first use.
        problems: Nodes without a form.
        roots: For each name the names whose storage it is or may be.
        starts: Bytes from the start of torch's storage to where a name's storage begins for us.
        uncertain: Names of which it is not known whether they are views.
        written: Names whose storage some line writes to.
        known: What torch's symbols inside a region are outside of it.
        kernels: Kernels that ops stand for, by the ops' names.
    """

    ranges: Mapping[str, tuple[int | None, int | None]] = field(default_factory=dict)
    hints: Mapping[str, int] = field(default_factory=dict)
    buffers: dict[str, Layout] = field(default_factory=dict)
    symbols: dict[str, SymbolInfo] = field(default_factory=dict)
    constants: dict[str, Constant] = field(default_factory=dict)
    data: dict[str, torch.Tensor] = field(default_factory=dict)
    definitions: dict[str, KernelDefinition] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    roots: dict[str, frozenset[str]] = field(default_factory=dict)
    starts: dict[str, Dim] = field(default_factory=dict)
    uncertain: set[str] = field(default_factory=set)
    written: set[str] = field(default_factory=set)
    known: dict[str, Scalar] = field(default_factory=dict)
    kernels: Mapping[str, KernelOp] = field(default_factory=dict)
    _origins: dict[Origin, int] = field(default_factory=dict)
    _counts: dict[str, int] = field(default_factory=dict)

    # Names.

    def fresh(self, wanted: str) -> str:
        """Return a buffer name that nothing else has, like the one wanted."""
        return self._fresh(wanted, self.buffers)

    def fresh_symbol(self, wanted: str) -> str:
        """Return a name for a symbol that nothing else has."""
        return self._fresh(wanted, self.symbols)

    def _fresh(self, wanted: str, taken: Mapping[str, object]) -> str:
        stem = re.sub(r"[^A-Za-z0-9_]", "_", wanted) or "buf"
        stem = f"_{stem}" if stem[0].isdigit() else stem
        name = stem
        while name in taken:
            self._counts[stem] = self._counts.get(stem, 0) + 1
            name = f"{stem}_{self._counts[stem]}"
        return name

    # Buffers.

    def define(self, wanted: str, tensor: torch.Tensor) -> str:
        """Introduce a buffer with storage of its own, laid out like a tensor."""
        return self.define_like(wanted, self.layout_of(tensor), self.start_of(tensor))

    def define_like(self, wanted: str, layout: Layout, start: Dim = 0) -> str:
        """Introduce a buffer with storage of its own and a layout."""
        name = self.fresh(wanted)
        self.buffers[name] = layout
        self.roots[name] = frozenset((name,))
        self.starts[name] = start
        return name

    def define_view(
        self, wanted: str, tensor: torch.Tensor, relation: Relation, sources: Sequence[str]
    ) -> str:
        """Introduce a buffer that is, or may be, a view of other buffers' storage."""
        layout, start = self.layout_of(tensor), self.start_of(tensor)
        starts = {self.starts[source] for source in sources}
        if relation is Relation.ALIAS and len(starts) == 1:
            (start,) = starts
            distance = dim(self.start_of(tensor) - start)
            layout = Layout(
                layout.dtype,
                layout.device,
                layout.size,
                layout.stride,
                elements(distance, layout.dtype.itemsize),
            )
        name = self.fresh(wanted)
        if relation is Relation.MAY_ALIAS or not self.uncertain.isdisjoint(sources):
            self.uncertain.add(name)
        self.buffers[name] = layout
        self.roots[name] = frozenset().union(*(self.roots[source] for source in sources))
        self.starts[name] = start
        return name

    def define_part(self, wanted: str, source: str, layout: Layout) -> str:
        """Introduce a buffer that is a view of a buffer's storage, laid out as said."""
        name = self.fresh(wanted)
        if source in self.uncertain:
            self.uncertain.add(name)
        self.buffers[name] = layout
        self.roots[name], self.starts[name] = self.roots[source], self.starts[source]
        return name

    def layout_of(self, tensor: torch.Tensor) -> Layout:
        """Return the layout of a tensor at the start of a storage.

        Raises:
            UnsupportedNodeError: It is not a plain, strided tensor.
        """
        if tensor.layout is not torch.strided:
            raise UnsupportedNodeError(f"a tensor of layout {tensor.layout} is not strided")
        return Layout(
            to_dtype(tensor.dtype),
            to_device(tensor.device),
            tuple(map(self.dim, tensor.shape)),
            tuple(map(self.dim, tensor.stride())),
        )

    def start_of(self, tensor: torch.Tensor) -> Dim:
        """Return where a tensor begins in its storage, in bytes."""
        return dim(self.dim(tensor.storage_offset()) * tensor.element_size())

    # Numbers.

    def dim(self, value: Any) -> Dim:
        """Return a size, stride or offset of torch's as one of ours."""
        return value if type(value) is int else dim(self._outside(to_dim(value)))

    def scalar(self, value: Any) -> Scalar:
        """Return a number or condition of torch's as one of ours."""
        return scalar(self._outside(to_scalar(value)))

    def _outside(self, value: Any) -> Any:
        names = free_symbols(value) & self.known.keys()
        if not names:
            return value
        pairs = {
            s: sympy.sympify(self.known[s.name]) for s in value.free_symbols if s.name in names
        }
        return value.xreplace(pairs)

    def bind(self, name: str, kind: SymbolKind = SymbolKind.INT, *, unbacked: bool = False) -> str:
        """Note that a line or an input binds a symbol of torch's from here on."""
        lower, upper = self.ranges.get(name, (None, None))
        if kind is SymbolKind.FLOAT:
            lower = upper = None
        self.symbols[name] = SymbolInfo(kind, lower, upper, self.hints.get(name), unbacked)
        return name

    def bind_fresh(self, wanted: str, kind: SymbolKind = SymbolKind.INT) -> str:
        """Introduce a symbol of our own, which a line or an input binds."""
        name = self.fresh_symbol(wanted)
        self.symbols[name] = SymbolInfo(kind, unbacked=True)
        return name

    def symbol(self, name: str) -> sympy.Symbol:
        """Return the symbol of a name that is bound."""
        is_real = self.symbols[name].kind is SymbolKind.FLOAT
        return real_symbol(name) if is_real else symbol(name)

    def is_bound(self, value: Any) -> bool:
        """Return whether every symbol of an expression is bound."""
        return free_symbols(value) <= self.symbols.keys()

    # Origins and problems.

    @property
    def origins(self) -> tuple[Origin, ...]:
        """The table of origins."""
        return tuple(self._origins)

    def origin(self, *nodes: Node, values: tuple[str, ...] = ()) -> int:
        """Return the number of the joint origin of nodes; of calls also what values they leave."""
        return self._origins.setdefault(origin_of(nodes, values), len(self._origins))

    def report(self, node: Node, reason: str) -> None:
        """Note that a node has no form."""
        frames = origin_of([node]).frames
        source = f"{frames[-1].file}:{frames[-1].line}" if frames else ""
        self.problems.append(Problem(node.name, target_of(node), reason, source))


def is_guard(node: Node) -> bool:
    """Return whether a node checks inputs of an exported module, as a program's preamble does."""
    return node.op == "call_module" and node.target == "_guards_fn" and not node.users


def target_of(node: Node) -> str:
    """Return what a node calls, in words."""
    target = node.target
    if isinstance(target, str):
        return f"{node.op} {target}"
    name = getattr(target, "__qualname__", None) or getattr(target, "__name__", None)
    is_op = hasattr(target, "overloadpacket") or hasattr(target, "overloads")
    return str(target) if is_op or name is None else f"{getattr(target, '__module__', '')}.{name}"


def tensors_in(value: Any) -> Iterator[str]:
    """Yield the names of the buffers in a node's value."""
    if isinstance(value, Ref):
        yield value.name
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_in(item)


def elements(distance: Dim, itemsize: int) -> Dim:
    """Return a distance in bytes in elements; 0 where it is no whole number of them."""
    if isinstance(distance, int):
        return distance // itemsize if distance % itemsize == 0 else 0
    quotient = distance / itemsize
    return dim(quotient) if quotient.is_integer else 0
