"""The graph of a model that a command names, captured again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wrapper_ir.cli.terminal import step

if TYPE_CHECKING:
    from wrapper_ir.debugging.against_graph import Graph


def graph_of(reference: str, args_reference: str | None, frontend: str) -> Graph:
    """Capture a model, and return the graph that a program of it is made from."""
    from torch.export import ExportedProgram

    from wrapper_ir.cli.reference import find_model
    from wrapper_ir.frontends.aten.sources import export_module
    from wrapper_ir.frontends.inductor import capture, record

    with step("capturing the graph"):
        found = find_model(reference, args_reference)
        if frontend == "aten":
            if isinstance(found.model, ExportedProgram):
                return found.model
            return export_module(found.model, found.args, found.dynamic_shapes, found.kwargs)
        with record() as programs:
            capture(found.model, found.args, found.kwargs, dynamic_shapes=found.dynamic_shapes)
        return programs.graphs[-1]
