"""State of a conversion: ``Shared`` for the whole program, ``Scope`` for one region."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Any, Final

import sympy
import torch

from wrapper_ir.build.draft import ProgramDraft
from wrapper_ir.frontends.common.expressions import to_dim, to_scalar
from wrapper_ir.frontends.common.ops import Path, to_device
from wrapper_ir.frontends.common.origins import origin_of
from wrapper_ir.frontends.common.symbols import IDENTIFIER
from wrapper_ir.frontends.inductor.compat import ir
from wrapper_ir.frontends.inductor.convert.streams import Queues
from wrapper_ir.frontends.inductor.convert.values import (
    held_values,
    read_values,
    symbol_info,
    tensor_layout,
    to_dtype,
)
from wrapper_ir.frontends.inductor.errors import UnsupportedLineError
from wrapper_ir.frontends.inductor.triton_tuning import Tuners
from wrapper_ir.lines.effects import effects
from wrapper_ir.lines.layout import Layout
from wrapper_ir.lines.memory import Allocate, Reinterpret
from wrapper_ir.lines.program import AnyLine, Constant, ConstantKind, SymbolInfo, SymbolKind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from wrapper_ir.lines.expr import Dim, Scalar
    from wrapper_ir.lines.kernels import ExternKernel, KernelCall

#: Names that torch generates for buffers, inputs and symbols.
_GENERATED: Final = re.compile(r"(buf|arg|op|s|u|ps|zf|zuf)\d+(_.*)?")


class Shared:
    """State of the whole program, in which names are unique and kernels are global."""

    def __init__(self, wrapper: Any, convert_lines: Callable[[Scope, Any], None]) -> None:
        #: The root graph's wrapper.
        self.wrapper = wrapper
        self.convert_lines = convert_lines
        self.draft: ProgramDraft = ProgramDraft()
        self._order: dict[Any, dict[Any, int]] = {}
        #: (Kernel, parameters) -> name of the definition.
        self.kernel_names: dict[Any, str] = {}
        #: (Triton kernel, accesses) -> name, definition and configuration.
        self.triton_kernels: dict[Any, Any] = {}
        #: Name and text of a Triton kernel -> its configuration.
        self.pinned: dict[tuple[str, str], Any] = {}
        self.tuners: Tuners = Tuners()
        #: Storage -> the multiple of bytes that kernels assume its address to be.
        self.aligned: dict[str, int] = {}
        self.queues: Queues = Queues(self.draft)

    def position(self, node: torch.fx.Node) -> tuple[int, str]:
        """Return a sort key for an fx node: sets of nodes have no order of their own."""
        if node.graph not in self._order:
            self._order[node.graph] = {n: i for i, n in enumerate(node.graph.nodes)}
        order = self._order[node.graph]
        return order.get(node, len(order)), node.name


class Scope:
    """One region during its conversion, while it is open: its graph and the names that it sees.

    It sees the symbols of the scope around it, but not its buffers.
    """

    def __init__(self, shared: Shared, graph: Any, outer: Scope | None = None) -> None:
        self.shared = shared
        self.draft: ProgramDraft = shared.draft
        self.graph = graph
        self.body: list[AnyLine] = self.draft.bodies[-1]
        self.defined: set[str] = set()
        #: Names of torch's symbols that are bound here.
        self.bound: set[str] = set() if outer is None else set(outer.bound)
        #: Names chosen for symbols that a later line binds.
        self._promised: dict[sympy.Symbol, str] = {}
        #: Replacements for torch's symbols that are bound under other names here.
        self.known: dict[sympy.Symbol, Any] = {} if outer is None else dict(outer.known)
        self.used: set[str] = set()
        #: Names whose storage belongs to the code around this region, or has several names.
        self.lent: set[str] = set()
        #: Names whose storage an object may hold.
        self.held: set[str] = set()
        #: Name of a call's whole result -> names of its leaves by path.
        self.leaves: dict[str, dict[Path, str]] = {}
        #: Inductor's name of an object -> its name here.
        self.objects: dict[str, str] = {}
        self.is_region: bool = outer is not None
        #: The next call's handle in Inductor's provenance.
        self.handle: str = ""
        self._views: dict[tuple[str, Layout], str] = {}
        #: Allocations that are not zeroed.
        self._unzeroed: set[str] = set()
        self._names: dict[str, str] = {}
        #: Inductor's buffers that begin inside a storage -> the offset that Inductor counts from.
        self._ahead: dict[str, Dim] = {}
        self._claimed: set[str] = set()
        self._real_names: Mapping[str, str] = graph.scheduler.mutation_real_name

    # Names ------------------------------------------------------------------------------------

    def rename(self, names: Sequence[str], new_names: Sequence[str]) -> None:
        """Rename inputs from Inductor's names, unless the new name is taken or may be generated."""
        if len(names) != len(new_names):
            return
        for name, new in zip(names, new_names, strict=True):
            is_free = new not in self.draft.reserved and not _GENERATED.fullmatch(new)
            if is_free and IDENTIFIER.fullmatch(new):
                self._names[name] = new
                self.draft.reserved.add(new)

    def name(self, name: str) -> str:
        """Return the name here of one of Inductor's inputs."""
        return self._names.get(name, name)

    def claim(self, name: str) -> str:
        """Return the name for one of Inductor's buffers: its own unless that is taken."""
        if name not in self._claimed and self.name(name) in self.draft.buffers:
            self._names[name] = self.draft.fresh(name)  # the graph is converted a second time
        self._claimed.add(name)
        return self.name(name)

    def define(self, name: str, layout: Layout) -> str:
        """Introduce a buffer with storage of its own, and return its name here."""
        name = self.claim(name)
        self.draft.buffers[name] = layout
        self.defined.add(name)
        return name

    def alias(self, name: str, existing: str) -> None:
        """Make one of Inductor's buffers another name of an existing one."""
        self._names[name] = existing
        self.defined.add(existing)

    def count_from(self, name: str, distance: Dim) -> None:
        """Note how many elements before a buffer kernels and views count from."""
        if distance != 0:
            self._ahead[name] = distance

    def is_unwritten(self, name: str) -> bool:
        """Return whether a buffer's memory has not been written to since it was allocated."""
        owner = self.draft.owner(self.resolve(name))
        return owner in self._unzeroed and not self.draft.is_written(owner)

    def retire(self, donor: str) -> None:
        """Forget the views of a storage, whose names end when it is taken over."""
        owner = self.draft.owner(donor)
        self._views = {key: view for key, view in self._views.items() if key[0] != owner}

    def resolve(self, name: str) -> str:
        """Return the name here of one of Inductor's buffers, which a line must have defined."""
        name = self.name(name)
        self.used.add(name)
        if name in self.defined:
            return name
        real = self.name(self._real_names.get(name, name))
        if real in self.defined:
            return real
        if real in self.graph.constants:
            return self._constant(real)
        raise UnsupportedLineError("use of a buffer", name, "no typed line defines it")

    def layout(self, name: str) -> Layout:
        """Return the layout of a name."""
        return self.draft.buffers[name]

    # References -------------------------------------------------------------------------------

    def reference(self, node: Any, origin: int | None = None) -> str:
        """Return the name of an IR node that is passed as an argument, making views as needed."""
        while isinstance(node, ir.MutableBox):
            node = node.data
        if isinstance(node, ir.ReinterpretView):
            return self.view(node.get_name(), node.layout, origin)
        return self.resolve(node.get_name())

    def kernel_argument(self, name: str) -> str:
        """Return what a kernel takes for a buffer, which may begin at an earlier element."""
        buffer = self.resolve(name)
        if name not in self._ahead:
            return buffer
        layout = self.layout(buffer)
        begin = self.dim(layout.offset - self._ahead[name])
        return self.relaid(buffer, dataclasses.replace(layout, offset=begin), None)

    def view(self, base: str, inductor_layout: Any, origin: int | None = None) -> str:
        """Return the name of a view of ``base``, making it unless it exists.

        Inductor counts a view's offset from the first element of the named buffer, we count from
        the start of the storage, so the base's own offset is added.
        """
        ahead = self._ahead.get(base, 0)
        base = self.resolve(base)
        base_layout = self.layout(base)
        layout = self.to_layout(inductor_layout)
        if layout.dtype.itemsize != base_layout.dtype.itemsize:
            why = "the element sizes differ, so the offset has no unit"
            raise UnsupportedLineError("view", f"{base} as {layout.dtype.torch_name}", why)
        begin = self.dim(base_layout.offset + layout.offset - ahead)
        return self.relaid(base, dataclasses.replace(layout, offset=begin), origin)

    def block(self, base: str, size: tuple[Dim, ...], begin: Dim, origin: int | None) -> str:
        """Return the name of a contiguous view of a buffer without gaps, from an element on."""
        layout = self.layout(base)
        plain = Layout.contiguous(layout.dtype, size, layout.device)
        begin = self.dim(layout.offset + begin)
        return self.relaid(base, dataclasses.replace(plain, offset=begin), origin)

    def rows(self, vector: str, size: tuple[Dim, ...], origin: int | None) -> str:
        """Return the name of a view of a vector as a matrix, with the vector as each row."""
        layout = self.layout(vector)
        layout = dataclasses.replace(layout, size=size, stride=(0, *layout.stride))
        return self.relaid(vector, layout, origin)

    def relaid(self, base: str, layout: Layout, origin: int | None = None) -> str:
        """Return the name of a view with another layout, making it unless it exists."""
        if layout == self.layout(base):
            return base
        key = (self.draft.owner(base), layout)
        if key not in self._views:
            name = self.define(self.draft.fresh(f"{base}_view"), layout)
            self.emit(Reinterpret(out=name, source=base, origin=origin))
            self._views[key] = name
        return self._views[key]

    # Values -----------------------------------------------------------------------------------

    def to_layout(self, layout: Any) -> Layout:
        """Return one of Inductor's layouts as ours, simplified as Inductor would print it."""
        size, stride = (tuple(map(self.dim, each)) for each in (layout.size, layout.stride))
        dtype, device = to_dtype(layout.dtype), to_device(layout.device)
        return Layout(dtype, device, size, stride, self.dim(layout.offset))

    def dim(self, value: Any) -> Dim:
        """Return a size, stride, offset or count in terms of symbols that are bound here."""
        if isinstance(value, (int, sympy.Integer)):
            return int(value)
        return to_dim(self._substituted(self._simplified(value)))

    def scalar(self, value: Any, *, simplify: bool = True) -> Scalar:
        """Return a number or condition in terms of symbols that are bound here."""
        if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            value = value.node.expr
        if not isinstance(value, sympy.Basic):
            return to_scalar(value)
        return to_scalar(self._substituted(self._simplified(value) if simplify else value))

    def _simplified(self, value: Any) -> Any:
        is_expr = isinstance(value, sympy.Expr) and not value.is_number
        return self.graph.sizevars.simplify(value) if is_expr else value

    def _substituted(self, value: Any) -> Any:
        """Replace unbound symbols by expressions that torch knows to be equal."""
        free = getattr(value, "free_symbols", ())
        for symbol in sorted(free, key=str) if free else ():
            self._promise(symbol)
        if self.known and free:
            value = value.xreplace(self.known)
        for _ in range(8):  # replacements may lead to replacements, but not for long
            free = getattr(value, "free_symbols", ())
            unknown = {s: r for s in free if (r := self._replacement(s)) is not None}
            if not unknown:
                break
            value = value.xreplace(unknown)
        return value

    def _promise(self, symbol: sympy.Symbol) -> None:
        """Choose a name for a symbol that another region has bound and this one will bind too.

        The layout of a call's result uses the symbol before a line binds it.
        """
        taken = symbol.name in self.draft.bound and symbol.name not in self.bound
        if taken and symbol not in self.known and self._replacement(symbol) is None:
            name = self.draft.fresh(symbol.name)
            self.draft.symbols[name] = symbol_info(symbol, self.graph)
            self.known[symbol] = sympy.Symbol(name, **symbol.assumptions0)
            self._promised[symbol] = name

    def _replacement(self, symbol: sympy.Symbol) -> sympy.Expr | None:
        if symbol.name in self.bound:
            return None
        sizevars = self.graph.sizevars
        precomputed = sizevars.inv_precomputed_replacements.get(symbol)
        return precomputed or sizevars.shape_env.replacements.get(symbol)

    def bind(self, symbol: sympy.Symbol) -> str:
        """Note that a line binds this symbol from here on, and return its name.

        It is torch's, unless another region has bound a symbol of that name.
        """
        name = str(self._promised.pop(symbol, symbol.name))
        if name in self.draft.bound:
            name = self.draft.fresh(name)
            self.known[symbol] = sympy.Symbol(name, **symbol.assumptions0)
        self.bound |= {symbol.name, name}
        info = self.draft.symbols.get(name)
        return self.draft.bind(name, info or symbol_info(symbol, self.graph))

    def bind_fresh(self, stem: str, kind: SymbolKind = SymbolKind.INT) -> str:
        """Introduce a symbol of our own, which a line or a region binds, and return its name."""
        name = self.draft.bind(self.draft.fresh(stem), SymbolInfo(kind, unbacked=True))
        self.bound.add(name)
        return name

    # Lines ------------------------------------------------------------------------------------

    def emit(self, line: AnyLine) -> None:
        """Append a line."""
        self.draft.emit(line)
        if isinstance(line, Allocate) and not line.zeroed:
            self._unzeroed.add(line.out)

    def emit_call(
        self,
        line: KernelCall | ExternKernel,
        nodes: Sequence[Any],
        leaves: Sequence[Any] = (),
        reads: Sequence[str] = (),
    ) -> None:
        """Append a call of some IR nodes, recording the fx nodes whose values it leaves in buffers.

        ``leaves`` are the nodes of its results if they are separate ones, ``reads`` the buffers
        that a kernel reads, as Inductor names them: one for each argument, or empty.
        """
        held = held_values((*nodes, *leaves), self._real_names, self.graph)
        held = {self.name(name): value for name, value in held.items()}
        values = tuple(held.get(name, "") for name in effects(line).written)
        read = read_values(reads, self._real_names, self.graph)
        fx_nodes = self._fx_nodes(nodes)
        known = fx_nodes or self.handle
        found = origin_of(fx_nodes, values if any(values) else (), self.handle, read)
        origin = self.draft.origin(found) if known else None
        self.handle = ""
        self.emit(dataclasses.replace(line, origin=origin))
        self.held.update(map(self.draft.owner, effects(line).held))

    def origin(self, *nodes: Any) -> int | None:
        """Return the number of the joint origin of IR nodes, or None if nothing is known."""
        fx_nodes = self._fx_nodes(nodes)
        return self.draft.origin(origin_of(fx_nodes)) if fx_nodes else None

    def _fx_nodes(self, nodes: Sequence[Any]) -> list[torch.fx.Node]:
        """Return the fx nodes that IR nodes are made from, in the graph's order."""
        found = {each for node in nodes for each in getattr(node, "origins", None) or ()}
        return sorted(found, key=self.shared.position)

    def _constant(self, name: str) -> str:
        tensor = self.graph.constants[name]
        if tensor.layout not in (torch.strided, torch._mkldnn):  # type: ignore[attr-defined]
            why = f"its layout is {tensor.layout}, not strided"
            raise UnsupportedLineError("constant", name, why)
        draft = self.draft
        if draft.data.get(name) is tensor:
            self.alias(name, name)  # another region has it already
            return name
        qualified = self.graph.allocated_constant_name.get(name, name)
        is_parameter = isinstance(tensor, torch.nn.Parameter)
        kind = ConstantKind.PARAMETER if is_parameter else ConstantKind.TENSOR
        kind = ConstantKind.PACKED if tensor.is_mkldnn else kind
        mutable = name in self.graph.mutated_buffers
        new = self.define(name, tensor_layout(tensor))
        draft.constants[new] = Constant(str(qualified), kind, mutable)
        draft.hold(new, tensor)
        return new
