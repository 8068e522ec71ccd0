"""From a program to what Inductor wants back: the text of a module.

Text is kept in Inductor's caches, and in what ``aot_compile`` saves, and executed from there, in
this process and in later ones. The emitters for Python and C++ give text of their own; of others
the module holds the program, and emits it again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from wrapper_ir.frontends.inductor.compat import V, ValueWithLineMap, trace_structured
from wrapper_ir.runtime.calls import pass_by

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wrapper_ir.emitters.base import Artifact
    from wrapper_ir.frontends.inductor.convert.graph import Passing
    from wrapper_ir.frontends.inductor.session import Session
    from wrapper_ir.frontends.inductor.settings import Settings
    from wrapper_ir.lines.program import Program


class CapturedModule:
    """Stands in for the product of Inductor's fx wrapper, and carries the program out.

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
    settings = session.settings.with_inductors()
    artifact, planned = artifact_of(program, settings)
    source: str | None = getattr(artifact, "module_source", None)
    variables = {} if source is None else getattr(artifact, "module_constants", {})
    if source is None:
        from wrapper_ir.frontends.inductor.module_text import module_text  # noqa: PLC0415

        source = module_text(planned, settings)
    _share_constants(program, variables, graph)
    graph.torchbind_constants.update(passing.constants.values())
    return ValueWithLineMap(source + _text_around(passing), [])


def artifact_of(program: Program, settings: Settings) -> tuple[Artifact, Program]:
    """Plan and emit a program; return what was made of it, and the planned program.

    Raises:
        EmitError: The emitter cannot render something in the program.
        UnsupportedError: The memory strategy is not available.
    """
    # The layers below are only needed where something is compiled anew.
    from wrapper_ir.api import emit  # noqa: PLC0415
    from wrapper_ir.debug_printer.spec import make_printer  # noqa: PLC0415
    from wrapper_ir.emitters.registry import make_emitter  # noqa: PLC0415
    from wrapper_ir.passes import pipeline_for, run_passes  # noqa: PLC0415

    printer = make_printer(settings.debug, settings.debug_filter, poison=settings.debug_poison)
    options = dict(settings.emitter_options)
    emitter = make_emitter(settings.emitter, options)
    passes = pipeline_for(emitter, printer, strategy=settings.memory)
    planned = run_passes(program, passes)
    _show(program, planned)
    return emit(planned, settings.emitter, **options), planned


def _show(program: Program, planned: Program) -> None:
    """Show a program, its plan and what the passes changed, to whoever looks at compilations.

    They are artefacts of a ``TORCH_TRACE``, and files of ``TORCH_COMPILE_DEBUG=1`` beside those of
    Inductor, there with the origins of lines.
    """

    def changes() -> str:
        from wrapper_ir.diffing import diff  # noqa: PLC0415 - only here

        return str(diff(program, planned))

    texts = {"program": program.__str__, "plan": planned.__str__, "diff": changes}
    for name, text in texts.items():
        about = {"name": f"wrapper_ir_{name}", "encoding": "string"}
        trace_structured("artifact", about.copy, payload_fn=text)
    if getattr(V.debug, "_path", None):
        from wrapper_ir.text import print_program  # noqa: PLC0415 - only here

        files = {
            "program.wir": print_program(program, origins=True),
            "plan.wir": print_program(planned, origins=True),
            "plan.diff": changes(),
        }
        for file, content in files.items():
            with V.debug.fopen(file, encoding="utf-8") as target:
                target.write(content)


def _text_around(passing: Passing) -> str:
    """Return what follows the text of a module so that it takes and returns what goes past."""
    if passing.is_empty:
        return ""
    names = {position: name for position, (name, _) in passing.constants.items()}
    positions = f"{passing.inputs!r}, {dict(passing.results)!r}, {names!r}"
    return (
        f"\n\nfrom {pass_by.__module__} import {pass_by.__name__}\n\n"
        f"call = {pass_by.__name__}(call, {positions}, globals())\n"
    )


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
