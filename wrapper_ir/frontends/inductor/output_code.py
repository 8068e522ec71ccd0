"""From a program to the module text that Inductor expects back.

Inductor stores text in its caches, and in what ``aot_compile`` saves, and executes it in this and
later processes. It cannot store a graph or another live object. The Python and C++ emitters write
module text of their own. For other emitters the module holds the program, and loading it emits the
program again with the emitter installed at that time.
"""

from __future__ import annotations

import functools
import threading
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch

from wrapper_ir.emitters import HasModule, ModuleText, emitter_class, faults_of, make_emitter
from wrapper_ir.emitters.artifact import Artifact, TakesLong
from wrapper_ir.frontends.inductor import compat, one_rank
from wrapper_ir.frontends.inductor.compat import (
    V,
    ValueWithLineMap,
    trace_structured,
    writes_traces,
)
from wrapper_ir.frontends.inductor.meeting import meeting_text
from wrapper_ir.frontends.inductor.small_sizes import least_sizes
from wrapper_ir.options.declared import level_name
from wrapper_ir.runtime.calls import pass_by

# ruff: noqa: PLC0415 - the layers below are only needed where something is compiled anew

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from wrapper_ir.frontends.inductor.convert.graph import Passing
    from wrapper_ir.frontends.inductor.session import Session
    from wrapper_ir.frontends.inductor.settings import Settings
    from wrapper_ir.lines.program import Program

    #: Takes a list of arguments, which it empties, and returns the results.
    BoxedCall = Callable[[list[Any]], tuple[Any, ...]]


def emit_module(program: Program, session: Session, graph: Any, passing: Passing) -> Any:
    """Return what ``_generate`` must return for a program, as the session says.

    Inductor's graph passes the constants to the module.

    Raises:
        EmitError: The emitter cannot render something in the program.
        UnsupportedError: The memory strategy is not available.
    """
    if session.capture:
        # The only attribute of an fx wrapper's result that Inductor reads is the module ``gm``.
        carrier = torch.fx.GraphModule({}, torch.fx.Graph())
        least = least_sizes(graph, program)
        carrier.meta |= {"program": program, "graph": graph.module, "least": least}
        return SimpleNamespace(gm=carrier)
    settings = session.settings.with_inductors()
    artifact, prepared = artifact_of(program, settings)
    with faults_of(emitter_class(settings.emitter), "it gave its module"):
        made = _module_of(artifact, program, settings)
    made = made or ModuleText(module_text(prepared, settings), {})
    _share_constants(prepared, made.constants, graph)
    one_rank.leave_out_groups(graph.torchbind_constants, dict(passing.constants.values()))
    graph.torchbind_constants.update(passing.constants.values())
    ending = _bypass_text(passing) + meeting_text(program, settings)
    return ValueWithLineMap(made.source + ending, [])


def artifact_of(
    program: Program, settings: Settings, *, shows: bool = True
) -> tuple[Artifact, Program]:
    """Emit a program; return the artifact and the program that it was rendered from."""
    from wrapper_ir.api import emitted
    from wrapper_ir.passes.printer import make_printer

    show = functools.partial(_show, program, settings.emitter) if shows else None
    printer = make_printer(settings.debug, settings.debug_filter, poison=settings.debug_poison)
    emitter = make_emitter(settings.emitter, dict(settings.emitter_options))
    return emitted(program, emitter, printer, strategy=settings.strategy, show=show)


def _module_of(artifact: Artifact, program: Program, settings: Settings) -> ModuleText | None:
    """Return an artifact's module for caches, if it has one."""
    if not isinstance(artifact, HasModule):
        return None
    # Whoever looks at values looks at those of the emitter that was chosen.
    is_shown = level_name(settings.debug) != "off"
    if isinstance(artifact, TakesLong) and settings.build == "background" and not is_shown:
        meanwhile = _stand_in(program, settings, artifact.stand_in)
        if meanwhile is not None:
            return artifact.as_module_after(meanwhile)
    return artifact.as_module()


def _stand_in(program: Program, settings: Settings, emitter: str) -> ModuleText | None:
    """Return another emitter's module for a program; None if it cannot render the program.

    It gets the same options, as far as it has them.
    """
    from wrapper_ir.emitters.base import EmitError
    from wrapper_ir.options.schema import options_of

    names = {option.name for option in options_of(emitter_class(emitter))}
    options = tuple(pair for pair in settings.emitter_options if pair[0] in names)
    try:
        settings = replace(settings, emitter=emitter, emitter_options=options)
        made, _ = artifact_of(program, settings, shows=False)
    except EmitError:
        return None
    return made.as_module() if isinstance(made, HasModule) else None


def _show(program: Program, emitter: str, planned: Program) -> None:
    """Write a program, what is rendered of it, their difference and a page to torch's logs.

    They become artifacts of a ``TORCH_TRACE``, and files of ``TORCH_COMPILE_DEBUG=1`` next to
    Inductor's; the files include the origins of lines.
    """

    def changes() -> str:
        from wrapper_ir.diffing import diff

        return str(diff(program, planned))

    @functools.cache
    def page() -> str:
        from wrapper_ir.explorer import explore

        return explore(planned, targets=(emitter,)).html

    texts = {"program": program.__str__, "plan": planned.__str__, "diff": changes}
    if writes_traces():
        texts["explorer.html"] = page
    for name, text in texts.items():
        metadata = {"name": f"wrapper_ir_{name}", "encoding": "string"}
        trace_structured("artifact", metadata.copy, payload_fn=text)
    if getattr(V.debug, "_path", None):
        from wrapper_ir.text import print_program

        files = {
            "program.wir": print_program(program, origins=True),
            "plan.wir": print_program(planned, origins=True),
            "plan.diff": changes(),
            "explorer.html": page(),
        }
        for file, content in files.items():
            with V.debug.fopen(file, encoding="utf-8") as target:
                target.write(content)


def _bypass_text(passing: Passing) -> str:
    """Return the end of a module's text that restores the values that bypass the program."""
    if passing.is_empty:
        return ""
    names = {position: name for position, (name, _) in passing.constants.items()}
    found = ""
    if passing.groups:
        found = f"\n\nfrom {compat.__name__} import {compat.process_group.__name__}\n"
    for position, name in passing.groups.items():
        names[position] = f"_group_{position}"
        found += f"\n_group_{position} = {compat.process_group.__name__}({name!r})"
    if passing.values:
        found += "\n\nimport torch\n"  # texts of values count on it
    for position, value in passing.values.items():
        text, types = compat.text_of_value(value)
        rows = [f"from {t.__module__} import {t.__name__} as {name}" for name, t in types.items()]
        names[position] = f"_value_{position}"
        found += "\n".join(["", *rows, f"_value_{position} = {text}"])
    positions = f"{passing.inputs!r}, {dict(passing.results)!r}, {names!r}"
    return (
        f"{found}\n\nfrom {pass_by.__module__} import {pass_by.__name__}\n\n"
        f"call = {pass_by.__name__}(call, {positions}, globals())\n"
    )


def _share_constants(program: Program, variables: Mapping[str, str], graph: Any) -> None:
    """Make Inductor set the constants of subgraphs too, under the names that the module uses."""
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


def module_text(program: Program, settings: Settings) -> str:
    """Return a module that defines ``call``, which takes one list and empties it.

    The loader of the module sets the constants of the (prepared) program in it, by their names
    there, before the first call.
    """
    from wrapper_ir.emitters.python.literals import source_literal
    from wrapper_ir.emitters.writer import prose
    from wrapper_ir.text import print_program

    text = print_program(program, origins=True)
    options = dict(settings.emitter_options)
    return (
        f'"""{prose(program.name)}: emitted by {prose(settings.emitter)} when it is loaded."""\n\n'
        f"from {__name__} import {boxed_call.__name__}\n\n"
        f"_program = {source_literal(text)}\n\n"
        f"call = {boxed_call.__name__}(_program, {settings.emitter!r}, {options!r}, globals())\n"
    )


def boxed_call(
    text: str, emitter: str, options: Mapping[str, Any], variables: Mapping[str, Any]
) -> BoxedCall:
    """Return the ``call`` function of such a module.

    A program without constants is emitted and loaded now, any other in its first call, when
    ``variables``, the module's, hold the constants.
    """
    from wrapper_ir.text import parse

    program = parse(text)
    names = (*program.constants, *program.objects)

    def load(whole: Program) -> BoxedCall:
        artifact = make_emitter(emitter, options).emit(whole)  # it is prepared already
        with faults_of(emitter_class(emitter), "what it made was loaded"):
            return artifact.load_boxed()

    if not names:
        return load(program)
    guard = threading.Lock()
    loaded: list[BoxedCall] = []

    def call(args: list[Any]) -> tuple[Any, ...]:
        if not loaded:
            with guard:
                if not loaded:
                    whole = program.replace(data={name: variables[name] for name in names})
                    loaded.append(load(whole))
        return loaded[0](args)

    return call
