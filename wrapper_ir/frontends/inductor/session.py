"""Sessions: who is compiling, and how; state of a context, never of the process.

Inductor's registration tables belong to the process, but whether a compilation is ours must not:
two threads may compile at once, one through us and one not. So every decision is read from a
``ContextVar``, of which each thread (and each asyncio task) has its own value. A session also says
who records the programs, and how to treat a graph without a typed form.
"""

from __future__ import annotations

import contextlib
import threading
import warnings
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from wrapper_ir.frontends.inductor.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch

    from wrapper_ir.lines.program import Program


@dataclass(slots=True)
class Statistics:
    """Counts of the graphs that this process compiled through the front end.

    Attributes:
        programs: Graphs with our wrapper.
        fallbacks: Graphs with Inductor's own wrapper, under ``on_unsupported="stock"``.
    """

    programs: int = 0
    fallbacks: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def count_program(self) -> None:
        """Count one graph compiled by us."""
        with self._lock:
            self.programs += 1

    def count_fallback(self) -> None:
        """Count one graph left to Inductor."""
        with self._lock:
            self.fallbacks += 1

    def reset(self) -> None:
        """Set all counts to zero."""
        with self._lock:
            self.programs = self.fallbacks = 0


#: Counts of this process.
statistics = Statistics()


class Recording(list["Program"]):
    """Programs in the order in which they were made.

    Attributes:
        graphs: For each program the graph of ATen ops that it was made from, in Inductor's final
            form, which ``bisect`` compares the program with.
        is_open: True until the block ends; nothing is added after that.
    """

    def __init__(self) -> None:
        super().__init__()
        self.graphs: list[torch.fx.GraphModule] = []
        self.is_open = True

    def add(self, program: Program, graph: torch.fx.GraphModule) -> None:
        """Append a program and its graph, unless the block has ended."""
        if self.is_open:
            self.append(program)
            self.graphs.append(graph)


@dataclass(frozen=True, slots=True)
class Session:
    """A context's request that Inductor's compilations go through us.

    Attributes:
        settings: The options.
        capture: Whether only the program is wanted, and nothing is emitted (``capture``).
        hold: For an installation: called with the trace of each forward that it compiles, because
            the backward may come after the block. None for a session that is entered again.
        input_names: Names for the inputs, in order; empty for Inductor's names.
        recorders: The recordings that were open when the session was made. A backward is compiled
            when it first runs, on some devices in a thread of its own; the session takes them
            there.
    """

    settings: Settings
    capture: bool = False
    hold: Callable[[object], None] | None = field(default=None, repr=False, compare=False)
    input_names: tuple[str, ...] = ()
    recorders: tuple[Recording, ...] = ()


_session: ContextVar[Session | None] = ContextVar("wrapper_ir.session", default=None)
_recorders: ContextVar[tuple[Recording, ...]] = ContextVar("wrapper_ir.recorders", default=())


def current_session() -> Session | None:
    """Return the session of this context, or None if compilations here are not ours."""
    return _session.get()


@contextlib.contextmanager
def use_session(session: Session | None) -> Iterator[None]:
    """Make ``session`` the current one of this context for the length of a block."""
    token = _session.set(session)
    try:
        yield
    finally:
        _session.reset(token)


def set_session(session: Session | None) -> Session | None:
    """Make ``session`` current and return the previous one, for code that cannot use a block."""
    before = _session.get()
    _session.set(session)
    return before


def open_recorders(session: Session | None = None) -> tuple[Recording, ...]:
    """Return the open recordings of this context and of the session."""
    carried = session.recorders if session is not None else ()
    distinct = {id(each): each for each in (*carried, *_recorders.get())}  # lists compare by value
    return tuple(recorder for recorder in distinct.values() if recorder.is_open)


# ``record``: the programs that compilations make.


@contextlib.contextmanager
def record() -> Iterator[Recording]:
    """Collect every program that compilations in this block make, in order, and their graphs.

    Forward, backward and the graphs between breaks are separate programs. The block reads no
    caches, so graphs that another process has compiled before still yield their programs.

    Yields:
        The list, which grows while the block runs. Its ``graphs`` are what the programs were made
        from, for ``bisect(..., b="eager", graph=...)``.
    """
    programs = Recording()
    token = _recorders.set((*_recorders.get(), programs))
    try:
        yield programs
    finally:
        programs.is_open = False
        _recorders.reset(token)


# Refusal of graphs without a typed form: an error, or Inductor's wrapper and a warning.


class StockFallbackWarning(UserWarning):
    """A graph was compiled with Inductor's own wrapper because it has no typed form."""


def may_refuse(session: Session) -> bool:
    """Return whether a graph without a typed form is an error, rather than left to Inductor."""
    return session.settings.on_unsupported == "raise" or session.capture


def refuse(session: Session, error: Exception) -> None:
    """Raise ``error``, unless the session lets Inductor's own wrapper serve the graph instead."""
    if may_refuse(session):
        raise error


def announce(message: str) -> None:
    """Count a graph that Inductor's own wrapper serves, and warn about it."""
    statistics.count_fallback()
    warnings.warn(
        f"a graph is compiled with Inductor's own wrapper: {message}",
        StockFallbackWarning,
        stacklevel=2,
    )


def with_announcement(source: str, error: Exception) -> str:
    """Append a statement to Inductor's module that makes the announcement when it is loaded.

    A later process may load the module from a cache without running any of our code, so the module
    has to announce it itself.
    """
    module = __name__
    return f"{source}\n\nfrom {module} import announce\nannounce({str(error)!r})\n"
