"""From a program to what Inductor wants back: the text of a module, or a callable.

Text is kept in Inductor's caches and executed from there, in this process and in later ones; a
callable is not. The Python emitter gives text, so a second process starts warm; so does the C++
emitter, whose text finds the library that was built from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch

from wrapper_ir.frontends.inductor.compat import FileBackedGraphModule, ValueWithLineMap
from wrapper_ir.frontends.inductor.identity import CACHEABLE_EMITTERS
from wrapper_ir.runtime.passing import pass_by

if TYPE_CHECKING:
    from wrapper_ir.frontends.inductor.convert import Passing
    from wrapper_ir.frontends.inductor.session import Session
    from wrapper_ir.lines.program import Program

__all__ = ["CapturedModule", "LoadedModule", "emit_module", "graph_of"]

#: A function that takes the list of arguments, empties it, and returns the results.
BoxedCall = Callable[[list[Any]], Sequence[Any]]


class LoadedModule(FileBackedGraphModule):
    """What Inductor takes for a compiled module: its file, its text and its ``call``.

    Args:
        source: The text to show where Inductor shows generated code.
        call: Runs the program.
    """

    def __init__(self, source: str, call: BoxedCall) -> None:
        self._source = source
        self._call = call
        super().__init__(gm=SimpleNamespace(code=source), compiled_fn=call)  # type: ignore[arg-type]

    @property
    def value(self) -> str:
        """The text."""
        return self._source

    def call(self, args: list[Any]) -> Any:
        """Run the program; ``args`` is emptied, so that what it held can go on time."""
        return self._call(args)


class CapturedModule:
    """What Inductor takes for the product of its fx wrapper; carries the program out.

    Args:
        program: The program.
        graph: The graph that it was made of.
    """

    def __init__(self, program: Program, graph: torch.fx.GraphModule) -> None:
        self.gm = torch.fx.GraphModule({}, torch.fx.Graph())
        self.gm.meta["program"] = program
        self.gm.meta["graph"] = graph


def graph_of(graph: Any) -> torch.fx.GraphModule:
    """Return the graph of ATen ops that Inductor lowers."""
    module: torch.fx.GraphModule = graph.module
    return module


def emit_module(program: Program, session: Session, graph: Any, passing: Passing) -> Any:
    """Return what ``_generate`` has to return for a program.

    Args:
        program: The program, memory not planned.
        session: What to make of it.
        graph: Inductor's graph, which hands the constants to the module of text.
        passing: Which arguments and results go past the program.

    Raises:
        EmitError: The emitter cannot render something in the program.
        UnsupportedError: The memory strategy is not available.
    """
    if session.capture:
        return CapturedModule(program, graph_of(graph))
    # The layers below are only needed where something is compiled anew.
    from wrapper_ir.api import emit  # noqa: PLC0415
    from wrapper_ir.debug_printer import make_printer, with_debugging  # noqa: PLC0415
    from wrapper_ir.emitters import emitter_class, faults_of  # noqa: PLC0415
    from wrapper_ir.planning import plan_memory  # noqa: PLC0415

    settings = session.settings
    planned = plan_memory(program, settings.memory, arena=settings.arena)
    printer = make_printer(settings.debug, settings.debug_filter, poison=settings.debug_poison)
    planned = with_debugging(planned, printer)
    artifact = emit(planned, settings.emitter, **dict(settings.emitter_options))
    if settings.emitter not in CACHEABLE_EMITTERS:
        with faults_of(emitter_class(settings.emitter), "what it made was loaded"):
            call = _around(artifact.load_boxed(), passing)
        return LoadedModule(artifact.source or str(planned), call)
    _share_constants(program, getattr(artifact, "constants", {}), graph)
    graph.torchbind_constants.update(passing.constants.values())
    source: str = getattr(artifact, "module_source", artifact.source)
    return ValueWithLineMap(source + _text_around(passing), [])


def _around(call: BoxedCall, passing: Passing) -> BoxedCall:
    """Return a function that takes and returns what goes past a program, too."""
    if passing.is_empty:
        return call
    values = dict(passing.constants.values())
    return pass_by(call, passing.inputs, passing.results, _names(passing), values)


def _text_around(passing: Passing) -> str:
    """Return what follows the text of a module for the same effect."""
    if passing.is_empty:
        return ""
    positions = f"{passing.inputs!r}, {dict(passing.results)!r}, {_names(passing)!r}"
    return (
        f"\n\nfrom {pass_by.__module__} import {pass_by.__name__}\n\n"
        f"call = {pass_by.__name__}(call, {positions}, globals())\n"
    )


def _names(passing: Passing) -> dict[int, str]:
    return {position: name for position, (name, _) in passing.constants.items()}


def _share_constants(program: Program, variables: Mapping[str, str], graph: Any) -> None:
    """Have Inductor set the constants of subgraphs too, and where the module renames them."""
    for name, value in program.data.items():
        if name in program.objects:
            graph.torchbind_constants[name] = value
        elif name not in graph.constants:
            graph.constants[name] = value
            graph.allocated_constant_name[name] = name
    for variable, name in variables.items():
        if name in program.objects:
            graph.torchbind_constants[variable] = program.data[name]
        elif variable != name:
            graph.constants[variable] = graph.constants[name]
            graph.allocated_constant_name[variable] = graph.allocated_constant_name[name]
