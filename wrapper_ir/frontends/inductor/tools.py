"""PyTorch's tools for compilations, which know of Inductor alone: logs, the minifier, the bisector.

Each has a place where a backend from outside can say a word. What we put there asks, as our entries
in Inductor's tables do, whether what is compiled in this context is ours; else it changes nothing.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final

from wrapper_ir.frontends.inductor.compat import (
    BISECTED_BACKENDS,
    BisectSubsystem,
    CompilerBisector,
    V,
    dynamo_config,
    trace_structured,
)
from wrapper_ir.frontends.inductor.identity import maker
from wrapper_ir.options import options_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from wrapper_ir.frontends.inductor.session import Session
    from wrapper_ir.frontends.inductor.settings import Settings
    from wrapper_ir.lines.program import Program

__all__ = ["Scripts", "is_bisected_away", "saved_for_minifier", "show_program"]


def show_program(program: Program, planned: Program) -> None:
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


# Scripts that show a failure again, which the minifier and ``TORCH_COMPILE_DEBUG=1`` write.


class Scripts:
    """Text that torch's scripts of failures begin with, as long as we are registered.

    Args:
        found: What they began with before.
    """

    def __init__(self, found: str) -> None:
        self._found = found

    def __str__(self) -> str:
        """Return what was found, and an installation where the failing graph is ours."""
        session = maker()
        if session is None or session.capture:
            return self._found
        return f"{self._found}\n{_installation(session.settings)}"


def _installation(settings: Settings) -> str:
    given = {option.name: getattr(settings, option.name) for option in options_of(type(settings))}
    given = {name: value for name, value in given.items() if value is not None}
    given |= dict(settings.emitter_options)
    options = ", ".join(f"{name}={value!r}" for name, value in given.items())
    return (
        "# Without the next two lines, Inductor's own wrapper is tried.\n"
        "from wrapper_ir.frontends.inductor import install\n"
        f"install({options})\n"
    )


def saved_for_minifier(
    compiled: Callable[..., Any], within: Callable[[], Any]
) -> Callable[..., Any]:
    """Return a compiled graph such that what the minifier writes when it is called is ours, too.

    The minifier looks at the results of calls; where it is off, nothing is added to them.

    Args:
        compiled: The graph.
        within: Makes the context in which compilations are ours.
    """
    if dynamo_config.repro_after != "aot":
        return compiled

    @functools.wraps(compiled)
    def call(*args: Any, **kwargs: Any) -> Any:
        with within():
            return compiled(*args, **kwargs)

    return call


# PyTorch's bisector: which backend is at fault, and which part of it, the how many-th time.

#: What it calls us: a backend of its own, and a part of Inductor, which installations replace.
_NAME: Final = "wrapper_ir"

BISECTED_BACKENDS["inductor"].insert(0, BisectSubsystem(_NAME))
BISECTED_BACKENDS.setdefault(_NAME, [BisectSubsystem(_NAME)])


def is_bisected_away(session: Session) -> bool:
    """Return whether PyTorch's bisector tries this graph with Inductor's own wrapper."""
    if session.capture:
        return False
    return any(
        CompilerBisector.disable_subsystem(backend, _NAME, _graph_in_words)
        for backend in ("inductor", _NAME)
    )


def _graph_in_words() -> str:
    graph: Any = V.graph
    way = "backward" if graph.is_backward else "forward"
    ops = (str(node.target) for node in graph.module.graph.nodes if node.op == "call_function")
    return f"a {way} of {', '.join(dict.fromkeys(ops))}"
