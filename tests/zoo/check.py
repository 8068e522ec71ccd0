"""One architecture in one mode: stock Inductor once, then every emitter against it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.models import harness
from tests.models.harness import OURS, STOCK, Run
from tests.models.zoo import Case
from wrapper_ir.frontends.inductor.session import statistics

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.zoo.toys import Architecture

__all__ = ["EMITTERS", "MODES", "Outcome", "check", "modes_of"]

EMITTERS = ("python", "cpp", "fx")
MODES = ("forward", "backward", "dynamic", "export")

BATCHES = (2, 5, 3)
"""Of one compilation with a dynamic batch."""


@dataclass(frozen=True)
class Outcome:
    """How an architecture fared in one mode with one emitter.

    Attributes:
        model: The architecture's name.
        kind: What kind of architecture it is.
        mode: Of ``MODES``.
        emitter: Of ``EMITTERS``.
        state: ``passed``, ``failed``, or ``skipped``: then stock cannot do it either.
        why: In words, for all but what passed.
        graphs: How many graphs Inductor lowered; as many programs were ours.
        lines: How many lines they have in all; each is typed.
        seconds: What it took to compile and run.
    """

    model: str
    kind: str
    mode: str
    emitter: str
    state: str
    why: str = ""
    graphs: int = 0
    lines: int = 0
    seconds: float = 0.0


def modes_of(architecture: Architecture) -> tuple[str, ...]:
    """Return the modes in which an architecture is tried."""
    further = {
        "backward": architecture.backward,
        "dynamic": architecture.dynamic,
        "export": architecture.exported,
    }
    return ("forward", *(mode for mode, wanted in further.items() if wanted))


def check(architecture: Architecture, mode: str, emitters: Sequence[str]) -> list[Outcome]:
    """Try an architecture in one mode, and say for each emitter how it fared."""
    if mode == "export":
        from tests.zoo.exporting import exported

        return [_outcome(architecture, mode, "cpp", lambda: exported(architecture))]
    case = Case(
        architecture.name,
        architecture.build,
        batch=architecture.batch,
        batches=BATCHES if mode == "dynamic" else (),
        context=architecture.context,
    )
    training = mode == "backward"
    try:
        stock = harness.run(case, STOCK, training=training)
    except Exception as error:
        return [_stock_fails(architecture, mode, emitter, case, error) for emitter in emitters]
    compared = (
        _outcome(architecture, mode, emitter, lambda name=emitter: _ours(case, stock, mode, name))
        for emitter in emitters
    )
    return list(compared)


def _stock_fails(
    architecture: Architecture, mode: str, emitter: str, case: Case, error: Exception
) -> Outcome:
    """Name what stock cannot do; a model that does not even run eagerly is a mistake of ours."""
    try:
        module, arguments = case.make()
        module.train(mode == "backward")(*arguments)
    except Exception as first:
        why = f"not even eagerly: {described(first)}"
        return Outcome(architecture.name, architecture.kind, mode, emitter, "failed", why)
    why = f"stock: {described(error)}"
    return Outcome(architecture.name, architecture.kind, mode, emitter, "skipped", why)


def _outcome(
    architecture: Architecture, mode: str, emitter: str, run: Callable[[], tuple[str, int, int]]
) -> Outcome:
    begin = time.monotonic()
    try:
        why, graphs, lines = run()
    except Exception as error:
        why, graphs, lines = described(error), 0, 0
    state = "failed" if why else "passed"
    if why.startswith("stock"):
        state = "skipped"
    took = time.monotonic() - begin
    name, kind = architecture.name, architecture.kind
    return Outcome(name, kind, mode, emitter, state, why, graphs, lines, took)


def _ours(case: Case, stock: Run, mode: str, emitter: str) -> tuple[str, int, int]:
    """Run one emitter; return what is wrong with it, and the graphs and lines there were."""
    training = mode == "backward"
    if not stock.watch.graphs:
        return "stock makes no graph of it", 0, 0
    statistics.reset()
    ours = harness.run(case, OURS, training=training, emitter=emitter)
    why = bypassed(ours, stock)
    different = [] if why else harness.differences(ours, stock)
    if different and harness.differences(harness.run(case, STOCK, training=training), stock):
        why = "stock gives other bits each time"
    elif different:
        why = f"differs: {different[0]} ({len(different)} in all)"
    return why, ours.watch.lowered, sum(len(program.body) for program in ours.programs)


def bypassed(ours: Run, stock: Run) -> str:
    """Say how graphs went past us; empty when each graph that Inductor lowered was ours."""
    programs, lowered = len(ours.programs), ours.watch.lowered
    if not lowered:
        return "bypassed: no graph was lowered"
    if not lowered == programs == statistics.programs or statistics.fallbacks:
        return f"bypassed: {lowered} graphs lowered, {programs} programs, {statistics}"
    if len(ours.watch.graphs) != len(stock.watch.graphs):
        return f"{len(ours.watch.graphs)} compiled graphs, not {len(stock.watch.graphs)}"
    # What the FX emitter makes is a live object, which has no text.
    sources = (getattr(graph, "source_code", "") for graph in ours.watch.graphs)
    if any("from torch._inductor" in source for source in sources):
        return "bypassed: the code that runs is stock's"
    return ""


def described(error: BaseException) -> str:
    """Return an error in one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]
