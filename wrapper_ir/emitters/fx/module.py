"""Assembly of the graph module: constants, the program's graph, the graphs of its regions."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import torch
from torch import fx

from wrapper_ir.emitters.fx import checks
from wrapper_ir.emitters.fx.artifact import FxArtifact
from wrapper_ir.emitters.fx.context import Context, install
from wrapper_ir.emitters.fx.graph_module import WrapperGraphModule
from wrapper_ir.emitters.fx.kernels import KERNELS
from wrapper_ir.emitters.fx.lines import RegionRenderer
from wrapper_ir.emitters.regions import find_beginning
from wrapper_ir.lines.control import BufferInput, ObjectInput, ScalarInput
from wrapper_ir.lines.program import GraphRole
from wrapper_ir.lines.walk import Path

if TYPE_CHECKING:
    from wrapper_ir.emitters.base import Problems
    from wrapper_ir.lines.program import Program


# The entry of the program's graph: its inputs and their checks.
#
# One node checks the fixed metadata of all inputs (types, devices, fixed sizes and strides).
# Symbolic sizes and strides are checked once their symbols are bound.


class Entry:
    """The entry of the program's graph.

    Attributes:
        end: The index of the first line after the entry. The lines of the entry are declarations,
            comments, and bindings of symbols to input metadata.
    """

    def __init__(self, renderer: RegionRenderer) -> None:
        self._renderer = renderer
        self._program = renderer.context.program
        self._beginning = find_beginning(self._program)
        self.end = self._beginning.end

    def check_fixed(self) -> None:
        """Check fixed metadata and scalar inputs."""
        renderer, program = self._renderer, self._program
        if not renderer.context.checks:
            return
        touched = renderer.context.touched_inputs
        if touched:
            saved = renderer.context.random_states if program.role is GraphRole.BACKWARD else ()
            specs = [
                checks.spec_of(name, program.layout(name), anywhere=name in saved)
                for name in touched
            ]
            nodes = [renderer.node(name) for name in touched]
            renderer.call(checks.CHECK_INPUTS, nodes, json.dumps(specs))
        renderer.checked.update(n for n in touched if self._beginning.knows(n))
        for param in program.inputs:
            if isinstance(param, ScalarInput):
                self._check_number(param.symbol)

    def _check_number(self, symbol: str) -> None:
        info = self._program.symbols[symbol]
        node = self._renderer.symbols[symbol]
        args = (symbol, info.kind.value, info.lower, info.upper)
        self._renderer.call(checks.CHECK_NUMBER, node, *args)

    def check_symbolic(self) -> None:
        """Check symbol ranges and symbolic metadata, once all symbols of inputs are bound."""
        renderer = self._renderer
        if not renderer.context.checks:
            return
        for symbol in dict.fromkeys(self._beginning.bound):
            if self._beginning.limits(symbol) != (None, None):
                self._check_number(symbol)
        for name in renderer.context.touched_inputs:
            if name in renderer.checked and self._beginning.leaves(name):
                layout = self._program.layout(name)
                spec = json.dumps([checks.spec_of(name, layout)])
                renderer.check_sizes(renderer.node(name), spec, layout, is_input=True)


def build_artifact(
    program: Program, problems: Problems, *, checks: bool, values: bool
) -> FxArtifact:
    """Render a program as a graph module."""
    context = Context(program, problems, checks=checks, values=values)
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
    # The module copies only the attributes that nodes use; it must have all constants.
    install(module, program, context.places)
    setattr(module, KERNELS, context.kernel_set())
    renderer.graph.lint()
    return FxArtifact(program, module, tuple(missing))


def _inputs(renderer: RegionRenderer) -> None:
    """Add the inputs of the program, and look up its constants."""
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
