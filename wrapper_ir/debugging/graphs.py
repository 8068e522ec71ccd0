"""The source graph of a program: its inputs, and the nodes that a second run can repeat."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind
from torch.fx import GraphModule

from wrapper_ir.errors import OptionValueError, WrapperIRError
from wrapper_ir.interpreter import folded_values

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch.fx import Node

    from wrapper_ir.lines.program import Program


class OtherGraphError(WrapperIRError):
    """A graph is not the source of a program. Field: ``reason``."""

    code = "WIR1516"
    template = "this graph is not the source of the program: {reason}"
    default_hint = "record() keeps the graph of each program: programs.graphs[0]"


Graph: TypeAlias = GraphModule | ExportedProgram
"""The source graph of a program that Inductor or ``from_fx`` made."""


def module_of(graph: object) -> GraphModule:
    """Return the module whose nodes are run.

    Raises:
        OptionValueError: The argument is not a graph.
    """
    if isinstance(graph, ExportedProgram):
        module: GraphModule = graph.graph_module
        return module
    if isinstance(graph, GraphModule):
        return graph
    expected = "the program's source graph, such as one of record().graphs"
    raise OptionValueError(option="graph", value=graph, expected=expected)


def constants_of(program: Program) -> dict[str, Any]:
    """Return the values of a program's constants by their qualified names in the model."""
    values = {**folded_values(program), **program.data}
    return {
        constant.qualified_name: values[name]
        for name, constant in program.constants.items()
        if name in values
    }


def arguments_of(graph: Graph, program: Program, inputs: Sequence[Any]) -> list[Any]:
    """Map a program's inputs to the graph's placeholders and return their values, in order.

    Raises:
        OtherGraphError: The inputs do not match the graph's placeholders.
    """
    left = list(inputs)
    nodes = list(module_of(graph).graph.find_nodes(op="placeholder"))
    if isinstance(graph, ExportedProgram):
        arguments = [
            _of_export(graph, spec, program, left) for spec in graph.graph_signature.input_specs
        ]
    elif len(nodes) == len(left):
        arguments, left = left, []
    else:
        arguments = [_next(left, _known(node)) for node in nodes]
    if left or len(arguments) != len(nodes):
        reason = f"it takes {len(nodes)} inputs, the program {len(inputs)}"
        raise OtherGraphError(reason=reason)
    return arguments


def _of_export(graph: ExportedProgram, spec: Any, program: Program, left: list[Any]) -> Any:
    if spec.kind is InputKind.USER_INPUT:
        known = spec.arg.value if isinstance(spec.arg, ConstantArgument) else torch.Tensor
        return _next(left, known)
    tensors = {**graph.state_dict, **graph.constants, **constants_of(program)}
    if spec.target not in tensors:
        raise OtherGraphError(reason=f"it needs {spec.target!r}, which is not a constant")
    return tensors[spec.target]


def _known(node: Node) -> Any:
    return node.meta.get("val", torch.Tensor)


def _next(left: list[Any], known: Any) -> Any:
    """Return the next input; None and strings are constants of the graph, not program inputs."""
    if known is None or isinstance(known, str):
        return known
    if not left:
        raise OtherGraphError(reason="it takes more inputs than the program")
    return left.pop(0)


# Facts about nodes, needed before eager results can serve as a reference.

_RANDOM: Final = "depend on random numbers"
_UNSET: Final = "depend on uninitialized memory"

#: Inductor's own random ops, which have no tag.
_RANDOM_PRIMS: Final = ("inductor_seed", "inductor_rand")

#: Modules of plain Python functions that graphs call on numbers and tuples.
_PLAIN: Final = ("_operator", "math")


def changes_in_place(node: Node) -> bool:
    """Return whether a node's op writes to an argument."""
    schema = getattr(node.target, "_schema", None)
    return schema is not None and bool(schema.is_mutable)


def is_computed_by_number(node: Node) -> bool:
    """Return whether a node computes nearly the same numbers in a wider type."""
    if node.op != "call_function" or node.target is torch.ops.aten.view.dtype:
        return False
    if not hasattr(node.target, "_schema"):
        return getattr(node.target, "__module__", "") in _PLAIN
    return not changes_in_place(node)


def not_repeatable(node: Node) -> str:
    """Return the reason why rerunning a node may give a different value, or an empty string."""
    tags = getattr(node.target, "tags", ())
    name = str(node.target).partition(".")[2]
    is_random = torch.Tag.nondeterministic_seeded in tags and not _drops_nothing(node)
    if is_random or name.startswith(_RANDOM_PRIMS):
        return _RANDOM
    return _UNSET if name.startswith(("empty", "new_empty")) else ""


def _drops_nothing(node: Node) -> bool:
    """Return whether an op with a dropout argument, such as attention, drops no elements."""
    schema = getattr(node.target, "_schema", None)
    for position, arg in enumerate(schema.arguments if schema is not None else ()):
        if arg.name == "dropout_p":
            positional = node.args[position] if position < len(node.args) else arg.default_value
            return bool(node.kwargs.get(arg.name, positional) == 0)
    return False
