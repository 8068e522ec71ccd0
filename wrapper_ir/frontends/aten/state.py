"""State of a conversion from an fx graph to a program, its errors, and the walk over a graph."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import sympy
import torch
from torch.fx import GraphModule, Node

from wrapper_ir.build.draft import ProgramDraft
from wrapper_ir.errors import WrapperIRError
from wrapper_ir.frontends.common.exported import Range
from wrapper_ir.frontends.common.expressions import to_dim, to_scalar
from wrapper_ir.frontends.common.ops import MisfitError, to_device
from wrapper_ir.frontends.common.origins import origin_of
from wrapper_ir.frontends.common.symbols import UnknownWayError
from wrapper_ir.lines.args import Relation
from wrapper_ir.lines.expr import Dim, Scalar, dim, free_symbols, quotient, scalar
from wrapper_ir.lines.layout import DType, Layout
from wrapper_ir.lines.program import SymbolInfo, SymbolKind

if TYPE_CHECKING:
    import wrapper_ir.lines as ir


@dataclass(frozen=True, slots=True)
class Problem:
    """A node that has no equivalent in a program."""

    node: str
    """The node's name."""
    target: str
    """The callee."""
    reason: str
    source: str = ""
    """The line of the model that it comes from, ``file:line``; empty if unknown."""

    def __str__(self) -> str:
        place = f" ({self.source})" if self.source else ""
        return f"%{self.node} = {self.target}: {self.reason}{place}"


class UnsupportedGraphError(WrapperIRError):
    """Nodes of a graph have no equivalent in a program. All of them are listed.

    Fields: ``problems`` are the nodes, ``count`` is their number, ``listing`` is their text.
    """

    code = "WIR3101"
    template = "{count} of the graph cannot become wrapper lines:\n{listing}"

    def __init__(self, *, problems: tuple[Problem, ...], **fields: object) -> None:
        number = len(problems)
        made: dict[str, object] = {
            "count": f"{number} {'node' if number == 1 else 'nodes'}",
            "listing": "\n".join(f"  {problem}" for problem in problems),
        }
        super().__init__(problems=problems, **{**fields, **made})  # type: ignore[arg-type]


class NotAnAtenGraphError(WrapperIRError):
    """A graph module calls something other than an op of torch's registry, or lacks shapes.

    Fields: ``what`` is the reason.
    """

    code = "WIR3102"
    template = "the graph module is not a graph of ATen ops: {what}"
    default_hint = (
        "trace it with torch.export.export or torch.fx.experimental.proxy_tensor.make_fx first, or"
        " pass example_inputs to have it exported"
    )


class ExportError(WrapperIRError):
    """``torch.export`` failed.

    Fields: ``problem`` is its message.
    """

    code = "WIR3103"
    template = "the module cannot be exported: {problem}"
    default_hint = (
        "make torch.export.export(model, args) work first; in a backend of torch.compile, pass the"
        " graphs of AOTAutograd without example_inputs (docs/from-fx.md)"
    )


class NotAModelError(WrapperIRError):
    """The argument is not a graph.

    Fields: ``kind`` is its type.
    """

    code = "WIR3104"
    template = "from_fx takes an ExportedProgram or a GraphModule, not a {kind}"
    default_hint = "export the model first: torch.export.export(model, args)"


class UnsupportedNodeError(Exception):
    """The node being converted has no equivalent in a program. Never leaves this package."""


@dataclass(frozen=True, slots=True)
class Ref:
    """The value of a node that is a tensor: the name of its buffer."""

    name: str


POISON: Final = object()
"""The value of a node that could not be converted. Its users are skipped without a report."""


def to_dtype(dtype: torch.dtype) -> DType:
    """Return the element type, which the IR must have."""
    try:
        return DType.from_torch_name(str(dtype))
    except KeyError:
        raise UnsupportedNodeError(f"the IR has no element type {dtype}") from None


@dataclass(slots=True)
class State:
    """The state of the conversion of a whole program."""

    draft: ProgramDraft = field(default_factory=ProgramDraft)
    ranges: Mapping[str, Range] = field(default_factory=dict)  #: of torch's symbols
    hints: Mapping[str, int] = field(default_factory=dict)  #: typical values of them
    problems: list[Problem] = field(default_factory=list)
    #: Offsets of our storages in torch's storages, in bytes, by buffer.
    starts: dict[str, Dim] = field(default_factory=dict)
    #: The values outside a region of torch's symbols inside it, by name.
    known: dict[str, Scalar] = field(default_factory=dict)

    # Buffers.

    def define(self, wanted: str, tensor: torch.Tensor) -> str:
        """Define a buffer with storage of its own, laid out like a tensor."""
        return self.define_like(wanted, self.layout_of(tensor), self.start_of(tensor))

    def define_like(self, wanted: str, layout: Layout, start: Dim = 0) -> str:
        """Define a buffer with a layout, in storage that begins ``start`` bytes behind torch's."""
        draft = self.draft
        name = draft.fresh(_identifier(wanted), draft.buffers)
        draft.buffers[name] = layout
        self.starts[name] = start
        return name

    def define_view(
        self, wanted: str, tensor: torch.Tensor, relation: Relation, sources: Sequence[str]
    ) -> str:
        """Define a buffer that is, or may be, a view of other buffers."""
        layout, start = self.layout_of(tensor), self.start_of(tensor)
        starts = {self.starts.get(source, 0) for source in sources}
        if relation is Relation.ALIAS and len(starts) == 1:
            distance = dim(start - next(iter(starts)))
            offset = elements(distance, layout.dtype.itemsize)
            layout, start = replace(layout, offset=offset), next(iter(starts))
        return self.define_like(wanted, layout, start)

    def layout_of(self, tensor: torch.Tensor) -> Layout:
        """Return the layout of a strided tensor, with a storage offset of 0."""
        if tensor.layout is not torch.strided:
            raise UnsupportedNodeError(f"a tensor of layout {tensor.layout} is not strided")
        size, stride = (tuple(map(self.dim, each)) for each in (tensor.shape, tensor.stride()))
        return Layout(to_dtype(tensor.dtype), to_device(tensor.device), size, stride)

    def start_of(self, tensor: torch.Tensor) -> Dim:
        """Return a tensor's storage offset in bytes."""
        return dim(self.dim(tensor.storage_offset()) * tensor.element_size())

    # Numbers.

    def dim(self, value: Any) -> Dim:
        """Convert torch's size, stride or offset."""
        return value if type(value) is int else dim(self._outside(to_dim(value)))

    def scalar(self, value: Any) -> Scalar:
        """Convert torch's number or condition."""
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
        """Record that a line or an input binds torch's symbol."""
        lower, upper = self.ranges.get(name, (None, None))
        if kind is SymbolKind.FLOAT:
            lower = upper = None
        info = SymbolInfo(kind, lower, upper, self.hints.get(name), unbacked)
        return self.draft.bind(name, info)

    def bind_fresh(self, wanted: str, kind: SymbolKind = SymbolKind.INT) -> str:
        """Define a fresh symbol, which a line or an input binds."""
        name = self.draft.fresh(_identifier(wanted), self.draft.symbols)
        return self.draft.bind(name, SymbolInfo(kind, unbacked=True))

    def is_bound(self, value: Any) -> bool:
        """Return True if every symbol of an expression is bound."""
        return free_symbols(value) <= self.draft.bound

    def is_new(self, symbol: Any) -> bool:
        """Return True if torch's expression is a symbol that is not bound yet."""
        return symbol.is_Symbol and symbol.name not in self.draft.bound

    # Origins and problems.

    def origin(self, *nodes: Node, values: tuple[str, ...] = ()) -> int:
        """Return the number of the joint origin of nodes. Calls also name the values they leave."""
        return self.draft.origin(origin_of(nodes, values))

    def report(self, node: Node, reason: str) -> None:
        """Report a node that has no equivalent."""
        frames = origin_of([node]).frames
        source = f"{frames[-1].file}:{frames[-1].line}" if frames else ""
        self.problems.append(Problem(node.name, target_of(node), reason, source))


class GraphWalk:
    """Converter of one graph into lines of the open region.

    ``convert`` converts a node that is neither a placeholder nor the output, and returns its value.
    A node that calls a graph walks that graph.
    """

    def __init__(
        self, state: State, module: GraphModule, convert: Callable[[GraphWalk, Node], Any]
    ) -> None:
        self.state = state
        self.module = module
        self.values: dict[Node, Any] = {}
        self.emit: Callable[[ir.AnyLine], None] = state.draft.emit
        self._convert = convert

    def run(self, given: Sequence[Any]) -> Any:
        """Convert every node, given the placeholders' values, and return the graph's output.

        A node that cannot be converted is reported to the state. Its users are skipped.
        """
        left = iter(given)
        result: Any = None
        for node in self.module.graph.nodes:
            if node.op == "placeholder":
                self.values[node] = next(left)
            elif node.op == "output":
                result = self.value(node.args[0])
            else:
                self.values[node] = self._converted(node)
        return result

    def value(self, arg: Any) -> Any:
        """Return an argument, or all arguments, with nodes replaced by their values."""
        return torch.fx.node.map_arg(arg, lambda node: self.values[node])

    def inline(self, module: Any, given: Sequence[Any]) -> Any:
        """Convert a graph that a node calls, inlined into this one."""
        return GraphWalk(self.state, as_graph(module), self._convert).run(given)

    def _converted(self, node: Node) -> Any:
        if any(self.values.get(source) is POISON for source in node.all_input_nodes):
            return POISON
        try:
            return self._convert(self, node)
        except (UnsupportedNodeError, MisfitError, UnknownWayError) as error:
            self.state.report(node, str(error))
        except WrapperIRError as error:
            self.state.report(node, error.message)
        return POISON


def as_graph(module: Any) -> GraphModule:
    """Return the callee of a node after checking that it is a graph."""
    if not isinstance(module, GraphModule):
        raise UnsupportedNodeError("it does not call a graph")
    return module


def _identifier(wanted: str) -> str:
    stem = re.sub(r"[^A-Za-z0-9_]", "_", wanted) or "buf"
    return f"_{stem}" if stem[0].isdigit() else stem


def is_guard(node: Node) -> bool:
    """Return True if a node checks the inputs of an export, which a program's preamble does."""
    return node.op == "call_module" and node.target == "_guards_fn" and not node.users


def target_of(node: Node) -> str:
    """Return the text for a node's callee in an error message."""
    target = node.target
    if isinstance(target, str):
        return f"{node.op} {target}"
    name = getattr(target, "__qualname__", None) or getattr(target, "__name__", None)
    is_op = hasattr(target, "overloadpacket") or hasattr(target, "overloads")
    return str(target) if is_op or name is None else f"{getattr(target, '__module__', '')}.{name}"


def elements(distance: Dim, itemsize: int) -> Dim:
    """Convert a distance in bytes to elements; 0 if it is not a whole number of them."""
    return quotient(distance, itemsize) or 0
