"""The explorer: a program's source, graph, lines, texts, kernels and memory, tied together.

Everything that a page shows is worked out by the analyses, the planner, the emitters and the diff;
this package puts it side by side in one :class:`Document`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from wrapper_ir.diffing import diff
from wrapper_ir.emitters import emitter_class, emitter_names
from wrapper_ir.errors import OptionError
from wrapper_ir.explorer.compiled import explore_trace
from wrapper_ir.explorer.document import VERSION, Document
from wrapper_ir.explorer.findings import RecordError, add_found
from wrapper_ir.explorer.logs import TraceError
from wrapper_ir.explorer.memory import plan_of
from wrapper_ir.explorer.page import PAGE, Page
from wrapper_ir.explorer.programs import view_of
from wrapper_ir.explorer.texts import kernels, places, target_of
from wrapper_ir.explorer.traces import memory_snapshot, perfetto
from wrapper_ir.lines import Stage
from wrapper_ir.lines.fields import as_program
from wrapper_ir.passes import lower
from wrapper_ir.planning import STRATEGIES, PlanResult, plan

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from wrapper_ir.explorer.document import View
    from wrapper_ir.lines import Program

__all__ = ["PAGE", "VERSION", "Document", "Page", "RecordError", "TraceError", "explore"]
__all__ += ["explore_trace", "memory_snapshot", "perfetto"]

#: The plans that are shown side by side: strategy and lifetime of arenas.
_PLANS: Final = {**{name: (name, "call") for name in STRATEGIES}, "pool, kept": ("pool", "kept")}


def explore(  # noqa: PLR0913 - a program, and what is known of it
    program: Program,
    other: Program | None = None,
    *,
    targets: Sequence[str] | None = None,
    plans: Sequence[str] | None = None,
    strategy: str = "reuse",
    graph: object = None,
    found: Iterable[object] = (),
    sources: bool = True,
) -> Page:
    """Return a page that shows a program: source, graph, lines, texts, kernels, memory, streams.

    Notebooks show the page by themselves; ``page.save("page.html")`` writes it.

    Args:
        program: The program; unless it is planned, it is lowered and planned first.
        other: A second program. The page then shows how it differs from the first.
        targets: The emitters whose texts are shown; by default all that are installed.
        plans: The plans that are compared: names of strategies, and ``"pool, kept"``; by default
            all of them. A program that is planned has only its own.
        strategy: The plan whose lines are shown.
        graph: The graph module that the program was made from, as ``wir.record()`` has it.
        found: What was found out about the program, the second one if there are two: what
            ``wir.debugging.record_run``, ``bisect`` or ``wir.validate`` returned, or files of what
            the commands ``run --record``, ``bisect --json`` and ``validate --json`` wrote, or of
            the debug printer's level ``stats``.
        sources: Whether files of the model may be read. Only Python files are in which each line
            that the program quotes still stands.

    Raises:
        NotAProgramError: An argument is not a program.
        VerificationError: A program breaks a rule of the IR.
        UnknownEmitterError: No such emitter is installed.
        OptionError: There is no such strategy.
        RecordError: Something in ``found`` says nothing of a run of the program.
    """
    names = tuple(emitter_names() if targets is None else targets)
    for name in names:
        emitter_class(name)  # a misspelt name is told before any work is done
    shown, views = [], []
    for which in (program,) if other is None else (program, other):
        given = as_program(which, "wir.explore")
        done, made = _plans(given, strategy, plans)
        views.append(_view(given.stage, done, made, graph=graph, sources=sources))
        views[-1].targets = [target_of(name, done.program, views[-1]) for name in names]
        shown.append(done.program)
    last = program if other is None else other
    numbers = {str(path): n for path, n in places(last, shown[-1], views[-1]).items()}
    for each in found:
        add_found(views[-1], each, numbers)
    changes = None if other is None else json.loads(diff(*shown).to_json())
    return Page(Document(views, changes))


def _view(
    stage: Stage, done: PlanResult, made: Mapping[str, PlanResult], *, graph: object, sources: bool
) -> View:
    """Return what is shown of a program besides the texts of emitters."""
    view = view_of(done.program, stage, graph=_texts_of(graph), read_sources=sources)
    view.kernels = kernels(done.program, view)
    view.plans = [plan_of(each, name, shown=each is done) for name, each in made.items()]
    return view


def _plans(
    program: Program, strategy: str, names: Iterable[str] | None
) -> tuple[PlanResult, dict[str, PlanResult]]:
    """Return the plan whose lines are shown, and all plans by name."""
    if program.stage is Stage.PLANNED:
        done = plan(program)
        return done, {"as given": done}
    lowered, made = lower(program), {}
    for name in dict.fromkeys((strategy, *(_PLANS if names is None else names))):
        if name not in _PLANS:
            raise OptionError(option=name, legal=_PLANS, owner="the explorer")
        how, arena = _PLANS[name]
        made[name] = plan(lowered, how, arena=arena)
    return made[strategy], made


def _texts_of(graph: object) -> Mapping[str, str]:
    """Return the text of each node of a graph module, by name."""
    nodes = getattr(getattr(graph, "graph", None), "nodes", ())
    return {node.name: str(node.format_node() or node) for node in nodes}
