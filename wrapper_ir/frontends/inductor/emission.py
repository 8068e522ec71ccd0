"""From a program to what Inductor wants back: the text of a module, or a callable.

Text is kept in Inductor's caches and executed from there, in this process and in later ones; a
callable is not. The Python emitter gives text, so a second process starts warm; so does the C++
emitter, whose text finds the library that was built from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import torch

from wrapper_ir.frontends.inductor.compat import (
    BackwardState,
    FileBackedGraphModule,
    ValueWithLineMap,
)
from wrapper_ir.frontends.inductor.identity import CACHEABLE_EMITTERS

if TYPE_CHECKING:
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


def emit_module(program: Program, session: Session, graph: Any) -> Any:
    """Return what ``_generate`` has to return for a program.

    Args:
        program: The program, memory not planned.
        session: What to make of it.
        graph: Inductor's graph, which hands the constants to the module of text.

    Raises:
        EmitError: The emitter cannot render something in the program.
        UnsupportedError: The memory strategy is not available.
    """
    if session.capture:
        return CapturedModule(program, graph_of(graph))
    # The layers below are only needed where something is compiled anew.
    from wrapper_ir.api import emit  # noqa: PLC0415
    from wrapper_ir.debug_printer import make_printer, with_debugging  # noqa: PLC0415
    from wrapper_ir.planning import plan_memory  # noqa: PLC0415

    settings = session.settings
    planned = plan_memory(program, settings.memory, arena=settings.arena)
    printer = make_printer(settings.debug, settings.debug_filter, poison=settings.debug_poison)
    planned = with_debugging(planned, printer)
    artifact = emit(planned, settings.emitter, **dict(settings.emitter_options))
    states = _backward_states(graph)
    if settings.emitter not in CACHEABLE_EMITTERS:
        call = artifact.load_boxed()
        return LoadedModule(artifact.source or str(planned), _without(states, call))
    _share_constants(program, getattr(artifact, "constants", {}), graph)
    source = getattr(artifact, "module_source", artifact.source)
    return ValueWithLineMap(source + "".join(map(_LEAVES_OUT.format, states)), [])


#: Has the module's function take None for one of its arguments, whatever is passed.
_LEAVES_OUT: Final = """

def call(args, _place={}, _call=call):
    args[_place] = None
    return _call(args)
"""


def _backward_states(graph: Any) -> list[int]:
    """Return the places of arguments that Inductor takes and ignores.

    They carry a graph's hooks past it to its backward, which compiled autograd traces.
    """
    examples = graph.example_inputs or ()
    return [place for place, value in enumerate(examples) if isinstance(value, BackwardState)]


def _without(places: Sequence[int], call: BoxedCall) -> BoxedCall:
    """Return a function that passes None at some places."""

    def passing_none(args: list[Any]) -> Sequence[Any]:
        for place in places:
            args[place] = None
        return call(args)

    return passing_none if places else call


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
