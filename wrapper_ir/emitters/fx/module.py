"""Assembly of the graph module: constants, the program's graph, the graphs of its regions."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import torch
from torch import fx

from wrapper_ir.analysis.borders import stored_inputs
from wrapper_ir.emitters.fx import checks
from wrapper_ir.emitters.fx.artifact import FxArtifact
from wrapper_ir.emitters.fx.context import Context, install
from wrapper_ir.emitters.fx.graph_module import WrapperGraphModule
from wrapper_ir.emitters.fx.kernels import KERNELS
from wrapper_ir.emitters.fx.lines import RegionRenderer
from wrapper_ir.emitters.regions import Beginning, find_beginning
from wrapper_ir.lines.control import BufferInput, ObjectInput, ScalarInput
from wrapper_ir.lines.program import GraphRole, Program
from wrapper_ir.lines.walk import Path

if TYPE_CHECKING:
    from wrapper_ir.emitters.base import Problems


# Checks at the beginning of the program's graph.
#
# One node checks the fixed metadata of all inputs (types, devices, fixed sizes and strides).
# Symbolic sizes and strides are checked once their symbols are bound.


def _check_fixed(renderer: RegionRenderer, beginning: Beginning) -> None:
    context, program = renderer.context, renderer.context.program
    touched = context.touched_inputs
    if touched:
        saved = context.random_states if program.role is GraphRole.BACKWARD else ()
        stored = stored_inputs(program)
        specs = [
            checks.spec_of(name, program.layout(name), anywhere=name in saved, plain=name in stored)
            for name in touched
        ]
        nodes = [renderer.node(name) for name in touched]
        renderer.call(checks.CHECK_INPUTS, nodes, json.dumps(specs))
    renderer.checked.update(n for n in touched if beginning.knows(n))
    for param in program.inputs:
        if isinstance(param, ScalarInput):
            _check_number(renderer, param.symbol)


def _check_number(renderer: RegionRenderer, symbol: str) -> None:
    info = renderer.context.program.symbols[symbol]
    args = (symbol, info.kind.value, info.lower, info.upper)
    renderer.call(checks.CHECK_NUMBER, renderer.symbols[symbol], *args)


def _check_symbolic(renderer: RegionRenderer, beginning: Beginning) -> None:
    for symbol in dict.fromkeys(beginning.bound):
        if beginning.limits(symbol) != (None, None):
            _check_number(renderer, symbol)
    for name in renderer.context.touched_inputs:
        if name in renderer.checked and beginning.leaves(name):
            layout = renderer.context.program.layout(name)
            spec = json.dumps([checks.spec_of(name, layout)])
            renderer.check_sizes(renderer.node(name), spec, layout, is_input=True)


def build_artifact(
    program: Program, problems: Problems, *, checks: bool, values: bool
) -> FxArtifact:
    """Render a program as a graph module."""
    context = Context(program, problems, checks=checks, values=values)
    renderer = RegionRenderer(context, program.region)
    _inputs(renderer)
    beginning = find_beginning(program)
    if checks:
        _check_fixed(renderer, beginning)
    for index in range(len(program.body) + 1):
        if checks and index == beginning.end:
            _check_symbolic(renderer, beginning)
        if index < len(program.body):
            renderer.render(index, Path().then("body", index))
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
    realigned: list[BufferInput] = []
    for param in context.program.inputs:
        match param:
            case ScalarInput():
                node = renderer.placeholder(param.symbol)
                renderer.symbols[param.symbol] = node
                context.values.symbol(node, param.symbol)
            case BufferInput():
                renderer.bind(param.name, renderer.placeholder(param.name))
                if param.realigned:
                    realigned.append(param)
            case ObjectInput():
                renderer.objects[param.object] = renderer.placeholder(param.object)
    for param in realigned:  # after all placeholders
        node = renderer.call(checks.REALIGNED, renderer.node(param.name), param.realigned)
        renderer.bind(param.name, node)
    for name, place in context.places.items():
        node = renderer.attribute(place, name)
        if name in context.program.objects:
            renderer.objects[name] = node
        else:
            renderer.bind(name, node)
