"""The whole module: constants, the program's graph, the graphs of its regions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import fx

from wrapper_ir.analysis.storage import StorageMap
from wrapper_ir.emitters.facts import gather
from wrapper_ir.emitters.fx.artifact import FxArtifact
from wrapper_ir.emitters.fx.constants import install
from wrapper_ir.emitters.fx.context import Context
from wrapper_ir.emitters.fx.entry import Entry
from wrapper_ir.emitters.fx.graph_module import WrapperGraphModule
from wrapper_ir.emitters.fx.kernels import KERNELS
from wrapper_ir.emitters.fx.lines import RegionRenderer
from wrapper_ir.lines.control import BufferInput, ObjectInput, ScalarInput
from wrapper_ir.lines.walk import Path

if TYPE_CHECKING:
    from wrapper_ir.emitters.base import Problems
    from wrapper_ir.lines.program import Program


def build_artifact(
    program: Program, problems: Problems, *, checks: bool, values: bool
) -> FxArtifact:
    """Renders a program as a graph module."""
    context = Context(
        program, gather(program, StorageMap(program)), problems, checks=checks, values=values
    )
    renderer = RegionRenderer(context, program.region)
    _inputs(renderer)
    entry = Entry(renderer)
    entry.check_fixed()
    for index in range(len(program.body)):
        if index == entry.end:
            entry.check_symbolic()
        renderer.render(index, Path().then("body", index))
    if entry.end == len(program.body):
        entry.check_symbolic()
    if problems.found:
        return FxArtifact(program, fx.GraphModule(torch.nn.Module(), fx.Graph()), ())
    renderer.finish(tuple(renderer.value(value) for value in program.results))
    missing = install(renderer.root, program, context.places)
    module = WrapperGraphModule(renderer.root, renderer.graph, class_name="Program")
    # Constants that no node uses belong to the module too.
    install(module, program, context.places)
    setattr(module, KERNELS, context.kernel_set())
    renderer.graph.lint()
    return FxArtifact(program, module, tuple(missing))


def _inputs(renderer: RegionRenderer) -> None:
    """Writes the inputs of the program, and looks up its constants."""
    context = renderer.context
    for param in context.program.inputs:
        match param:
            case ScalarInput():
                node = renderer.placeholder(param.symbol)
                renderer.symbols[param.symbol] = node
                context.values.symbol(node, param.symbol)
            case BufferInput():
                renderer.bind(param.name, renderer.placeholder(param.name))
            case ObjectInput():
                renderer.objects[param.object] = renderer.placeholder(param.object)
    for name, place in context.places.items():
        node = renderer.attribute(place, name)
        if name in context.program.objects:
            renderer.objects[name] = node
        else:
            renderer.bind(name, node)
