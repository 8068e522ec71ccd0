"""Sources of a conversion: an exported program or a graph module, seen alike."""

from __future__ import annotations

import contextlib
import copy
import enum
import operator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import torch
from torch.export.graph_signature import (
    ConstantArgument,
    CustomObjArgument,
    InputKind,
    OutputKind,
    TensorArgument,
    TokenArgument,
)
from torch.fx import GraphModule, Node
from torch.utils import _pytree as pytree

from wrapper_ir.frontends.aten import numbers
from wrapper_ir.frontends.aten.errors import ExportError, NotAnAtenGraphError
from wrapper_ir.frontends.aten.state import is_guard, target_of
from wrapper_ir.frontends.common.expressions import bound_of
from wrapper_ir.frontends.common.ops import is_op
from wrapper_ir.lines.program import ConstantKind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torch.export import ExportedProgram


class PlaceKind(enum.Enum):
    """Meaning of a graph's placeholder."""

    INPUT = "input"
    CONSTANT = "constant"
    FIXED = "fixed"
    """An argument that had this value when the graph was made, and must have it again."""


@dataclass(frozen=True, slots=True)
class Place:
    """A placeholder: an input, a tensor of the model's, or a value that never changes."""

    node: Node
    kind: PlaceKind
    name: str
    value: Any = None
    constant: ConstantKind = ConstantKind.TENSOR


@dataclass(slots=True)
class Source:
    """A graph, and what is known of its borders.

    Attributes:
        module: Holds the graph.
        places: Its placeholders, in order.
        copies: For each of the graph's first outputs the name of the place it is copied to.
        results: The graph's other outputs, by position: those that the caller gets.
        ranges: Inclusive bounds of symbols.
        in_spec: The form of the caller's arguments, as JSON or empty.
        out_spec: The form of what the caller gets.
    """

    module: GraphModule
    places: list[Place]
    copies: dict[int, str] = field(default_factory=dict)
    results: list[int] = field(default_factory=list)
    ranges: dict[str, tuple[int | None, int | None]] = field(default_factory=dict)
    in_spec: str = ""
    out_spec: str = ""


_CONSTANTS: Final[Mapping[InputKind, ConstantKind]] = {
    InputKind.PARAMETER: ConstantKind.PARAMETER,
    InputKind.BUFFER: ConstantKind.BUFFER,
    InputKind.CONSTANT_TENSOR: ConstantKind.TENSOR,
}

_COPIES: Final = tuple(
    getattr(OutputKind, name)
    for name in ("BUFFER_MUTATION", "USER_INPUT_MUTATION", "PARAMETER_MUTATION")
    if hasattr(OutputKind, name)
)


def needs_decomposition(module: GraphModule) -> bool:
    """Return whether some op of a graph does what neither its schema nor a line can express."""
    graphs = [m for m in module.modules() if isinstance(m, GraphModule)]
    return any(_is_hidden(node) for graph in graphs for node in graph.graph.nodes)


def _is_hidden(node: Node) -> bool:
    if node.op != "call_function":
        return False
    target: Any = node.target
    if not is_op(target):
        return getattr(target, "__name__", "") == "wrap_with_autocast"
    name = target.name().partition(".")[0]
    if name == "aten::instance_norm":
        return node.args[3] is not None and node.args[5] is True
    return torch.Tag.inplace_view in target.tags and name != "aten::detach_"


def source_of_export(exported: ExportedProgram) -> Source:
    """Return an exported program as a source; decomposed where a line cannot say what it does."""
    if needs_decomposition(exported.graph_module):
        exported = exported.run_decompositions({})
    signature = exported.graph_signature
    tensors = {**exported.state_dict, **exported.constants}
    nodes = [n for n in exported.graph.nodes if n.op == "placeholder"]
    places = [
        _place(node, spec, tensors) for node, spec in zip(nodes, signature.input_specs, strict=True)
    ]
    by_target = {place.name: place.node.name for place in places}
    source = Source(exported.graph_module, places)
    for position, output in enumerate(signature.output_specs):
        if output.kind in _COPIES:
            source.copies[position] = by_target[str(output.target)]
        elif output.kind is not OutputKind.TOKEN:
            source.results.append(position)
    for symbol, values in exported.range_constraints.items():
        source.ranges[str(symbol)] = bound_of(values.lower), bound_of(values.upper)
    source.in_spec = _spec(exported.call_spec.in_spec)
    source.out_spec = _spec(exported.call_spec.out_spec)
    return source


def _place(node: Node, spec: Any, tensors: Mapping[str, Any]) -> Place:
    if spec.kind in _CONSTANTS:
        return Place(
            node, PlaceKind.CONSTANT, spec.target, tensors[spec.target], _CONSTANTS[spec.kind]
        )
    if isinstance(spec.arg, (CustomObjArgument, TokenArgument)):
        kind = "an object of a custom class" if spec.target else "a token"
        raise NotAnAtenGraphError(what=f"its argument {node.name!r} is {kind}", hint="")
    if isinstance(spec.arg, ConstantArgument):
        return Place(node, PlaceKind.FIXED, node.name, spec.arg.value)
    return Place(node, PlaceKind.INPUT, node.name, isinstance(spec.arg, TensorArgument))


def source_of_module(module: GraphModule) -> Source:
    """Return a graph module of ATen ops as a source.

    Raises:
        NotAnAtenGraphError: It is something else.
    """
    problem = _foreign(module)
    if problem:
        raise NotAnAtenGraphError(what=problem)
    module = completed(module)
    nodes = [n for n in module.graph.nodes if n.op == "placeholder"]
    places = []
    for node in nodes:
        known = node.meta.get("val")
        is_number = known is None or isinstance(known, (bool, int, float, str))
        kind = PlaceKind.FIXED if is_number else PlaceKind.INPUT
        places.append(Place(node, kind, node.name, known))
    output = next(n for n in module.graph.nodes if n.op == "output")
    leaves, spec = pytree.tree_flatten(output.args[0])
    del spec
    return Source(_flat_output(module, leaves), places, results=list(range(len(leaves))))


def _flat_output(module: GraphModule, leaves: Sequence[Any]) -> GraphModule:
    """Return a module that gives leaves; the same one where that is so already."""
    output = next(n for n in module.graph.nodes if n.op == "output")
    if isinstance(output.args[0], (tuple, list)) and list(output.args[0]) == list(leaves):
        return module
    graph = copy.deepcopy(module.graph)
    end = next(n for n in graph.nodes if n.op == "output")
    end.args = (tuple(pytree.tree_leaves(end.args[0])),)
    return GraphModule(module, graph)


def _foreign(module: GraphModule) -> str:
    """Return in words what of a module is no graph of ATen ops; empty if all is well."""
    for node in module.graph.nodes:
        if node.op in ("call_module", "call_method") and not is_guard(node):
            return f"%{node.name} is a {target_of(node)}"
        if node.op == "call_function" and not _is_plain(node.target):
            return f"%{node.name} calls {target_of(node)}"
    for node in module.graph.nodes:
        if node.op == "placeholder" and "val" not in node.meta:
            return f"the shape of %{node.name} is not known (its meta has no 'val')"
    return ""


def _is_plain(target: Any) -> bool:
    """Return whether a graph of ATen ops may call it: ops, arithmetic on numbers."""
    is_higher_order = isinstance(target, torch._ops.HigherOrderOperator)  # noqa: SLF001
    if is_op(target) or is_higher_order:
        return True
    return target is operator.getitem or numbers.find(target) is not None


def export_module(
    module: torch.nn.Module,
    args: Sequence[Any],
    dynamic_shapes: Any,
    kwargs: Mapping[str, Any] | None = None,
) -> ExportedProgram:
    """Export a module.

    Raises:
        ExportError: Torch cannot.
    """
    try:
        return torch.export.export(
            module, tuple(args), dict(kwargs or {}), dynamic_shapes=dynamic_shapes
        )
    except Exception as error:
        raise ExportError(problem=str(error)) from error


def _spec(tree: pytree.TreeSpec | None) -> str:
    """Return a tree's form as JSON, empty where it holds a type that has no name there."""
    try:
        return "" if tree is None else pytree.treespec_dumps(tree)
    except NotImplementedError:
        return ""


# Shapes that nodes of a graph do not know, worked out from those that do.
#
# Tools that change graphs often leave out the stand-in (``meta["val"]``) of what they have
# inserted. Torch's stand-ins work out an op's result when the op is called with them, so that is
# what is done.


def completed(module: GraphModule) -> GraphModule:
    """Return the module with every shape known that can be worked out; itself, if none is missing.

    Of what has none after that, the conversion says so if it needs it.
    """
    if not any(map(_is_missing, module.graph.nodes)):
        return module
    copied = GraphModule(module, copy.deepcopy(module.graph))
    copied.__dict__.update({k: v for k, v in vars(module).items() if k not in vars(copied)})
    inputs = (n.meta.get("val") for n in copied.graph.nodes if n.op == "placeholder")
    mode = next((v.fake_mode for v in inputs if hasattr(v, "fake_mode")), None)
    for node in copied.graph.nodes:
        if _is_missing(node):
            _complete(copied, node, mode)
    return copied


def _is_missing(node: Node) -> bool:
    is_wanted = node.op == "call_function" and bool(node.users) and "val" not in node.meta
    return is_wanted and (is_op(node.target) or numbers.find(node.target) is not None)


def _complete(module: GraphModule, node: Node, mode: Any) -> None:
    target: Any = node.target
    if is_op(target) and _writes(target):
        return
    # What torch says of a call that it does not allow is of many classes.
    with contextlib.suppress(Exception):
        args, kwargs = torch.fx.node.map_arg(
            (node.args, node.kwargs), lambda n: _in_mode(_stand_in(module, n), mode)
        )
        node.meta["val"] = target(*args, **kwargs)


def _stand_in(module: GraphModule, node: Node) -> Any:
    if node.op != "get_attr" or "val" in node.meta:
        return node.meta["val"]
    return operator.attrgetter(str(node.target))(module)


def _in_mode(value: Any, mode: Any) -> Any:
    """Return a tensor as a stand-in of one kind: torch does not mix those of several."""
    if isinstance(value, (list, tuple)):
        return [_in_mode(item, mode) for item in value]
    if mode is None or not isinstance(value, torch.Tensor):
        return value
    own = getattr(value, "fake_mode", None)
    if own is mode:
        return value
    if own is None:
        return mode.from_tensor(value)
    with mode:
        return torch.empty_strided(
            value.shape, value.stride(), dtype=value.dtype, device=value.device
        )


def _writes(target: Any) -> bool:
    return any("!" in part for part in str(target._schema).partition("->")[:1])  # noqa: SLF001
