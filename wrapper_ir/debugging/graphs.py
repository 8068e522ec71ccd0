"""The graph that a program was made of, and what its placeholders are given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind
from torch.fx import GraphModule

from wrapper_ir.debugging.errors import OtherGraphError
from wrapper_ir.errors import OptionValueError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wrapper_ir.lines.program import Program

__all__ = ["Graph", "arguments_of", "constants_of", "module_of"]

Graph: TypeAlias = GraphModule | ExportedProgram
"""What a program is made of: by Inductor, or by ``from_fx``."""


def module_of(graph: object) -> GraphModule:
    """The module whose nodes are to be run.

    Raises:
        OptionValueError: It is no graph.
    """
    if isinstance(graph, ExportedProgram):
        module: GraphModule = graph.graph_module
        return module
    if isinstance(graph, GraphModule):
        return graph
    expected = "the graph that the program was made of, such as record().graphs has"
    raise OptionValueError(option="graph", value=graph, expected=expected)


def constants_of(program: Program) -> dict[str, Any]:
    """The values of a program's constants by the names that the model has for them."""
    return {
        constant.qualified_name: program.data[name]
        for name, constant in program.constants.items()
        if name in program.data
    }


def arguments_of(graph: Graph, program: Program, inputs: Sequence[Any]) -> list[Any]:
    """What the graph's placeholders stand for, in order, when the program is given its inputs.

    Raises:
        OtherGraphError: The graph takes other inputs.
    """
    left = list(inputs)
    nodes = list(module_of(graph).graph.find_nodes(op="placeholder"))
    if isinstance(graph, ExportedProgram):
        given = [
            _of_export(graph, spec, program, left) for spec in graph.graph_signature.input_specs
        ]
    elif len(nodes) == len(left):
        given, left = left, []
    else:
        given = [_next(left, _known(node)) for node in nodes]
    if left or len(given) != len(nodes):
        reason = f"it takes {len(nodes)} inputs, the program {len(inputs)}"
        raise OtherGraphError(reason=reason)
    return given


def _of_export(graph: ExportedProgram, spec: Any, program: Program, left: list[Any]) -> Any:
    if spec.kind is InputKind.USER_INPUT:
        known = spec.arg.value if isinstance(spec.arg, ConstantArgument) else torch.Tensor
        return _next(left, known)
    tensors = {**graph.state_dict, **graph.constants, **constants_of(program)}
    if spec.target not in tensors:
        raise OtherGraphError(reason=f"it needs {spec.target!r}, which is no constant")
    return tensors[spec.target]


def _known(node: torch.fx.Node) -> Any:
    return node.meta.get("val", torch.Tensor)


def _next(left: list[Any], known: Any) -> Any:
    """The next input; what is neither a tensor nor a number is none of a program's."""
    if known is None or isinstance(known, str):
        return known
    if not left:
        raise OtherGraphError(reason="it takes more inputs than the program")
    return left.pop(0)
