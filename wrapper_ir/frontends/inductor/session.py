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
import weakref
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial, wraps
from typing import TYPE_CHECKING, Any

from wrapper_ir.frontends.inductor.compat import TracingContext
from wrapper_ir.frontends.inductor.settings import Settings

if TYPE_CHECKING:

    import torch

    from wrapper_ir.lines.program import Program

    Within = Callable[[], contextlib.AbstractContextManager[None]]


@dataclass(slots=True)
class Statistics:
    """Counts of the graphs that this process compiled through the front end.

    Attributes:
        programs: Graphs with our wrapper.
        fallbacks: Graphs with Inductor's own wrapper, under ``on_unsupported="stock"``.
        relowered: Graphs that were lowered a second time, without the passes of Inductor's that
            make a graph write in place, because these did to the caller's memory what the graph
            does not.
    """

    programs: int = 0
    fallbacks: int = 0
    relowered: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def count_program(self) -> None:
        """Count one graph compiled by us."""
        with self._lock:
            self.programs += 1

    def count_fallback(self) -> None:
        """Count one graph left to Inductor."""
        with self._lock:
            self.fallbacks += 1

    def count_relowered(self) -> None:
        """Count one graph that was lowered a second time."""
        with self._lock:
            self.relowered += 1

    def reset(self) -> None:
        """Set all counts to zero."""
        with self._lock:
            self.programs = self.fallbacks = self.relowered = 0


#: Counts of this process.
statistics: Statistics = Statistics()


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
    """A context's request that Inductor's compilations go through us."""

    settings: Settings
    capture: bool = False  #: whether only the program is wanted, and nothing is emitted
    #: For an installation: called with the trace of each forward that it compiles, because the
    #: backward may come after the block. None for a session that is entered again.
    hold: Callable[[object], None] | None = field(default=None, repr=False, compare=False)
    input_names: tuple[str, ...] = ()  #: in order; empty for Inductor's names
    #: The recordings that were open when the session was made. A backward is compiled when it first
    #: runs, on some devices in a thread of its own; the session takes them there.
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


# The session that compiles the current graph.
#
# The compiler of a forward also compiles its backward. An installation belongs to a context, but a
# backward is compiled when it first runs: after the block or in one of autograd's threads, where
# there is no installation, or inside the block for a forward from before it. AOTAutogradCache
# stores both together under the facts of the forward. So the session of an installation is tied to
# the trace that both share, and the first query decides.

#: Traces compiled in an installation, with its session.
_makers: weakref.WeakKeyDictionary[TracingContext, Session] = weakref.WeakKeyDictionary()

#: Traces whose backward may be compiled after the installation has ended.
_held: weakref.WeakSet[TracingContext] = weakref.WeakSet()


def maker() -> Session | None:
    """Return the session that compiles the current graph, or None if Inductor compiles it alone."""
    session = current_session()
    trace = TracingContext.try_get()
    if trace is None or (session is not None and session.hold is None):
        return session
    owner = _makers.get(trace)
    if owner is None and session is not None and not _is_backward(trace):
        owner = _makers[trace] = session
    has_backward = trace.fw_metadata is not None and bool(trace.fw_metadata.traced_tangents)
    if owner is not None and owner.hold and trace not in _held and has_backward:
        _held.add(trace)
        owner.hold(trace)
    return owner


def _is_backward(trace: TracingContext) -> bool:
    """Return whether a backward is being compiled.

    AOTAutograd describes a forward in the trace before compiling it, and collects output strides
    there only during that compilation.
    """
    return trace.fw_metadata is not None and trace.output_strides is None


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
    text = f"a graph is compiled with Inductor's own wrapper: {message}"
    warnings.warn(text, StockFallbackWarning, stacklevel=2)


def with_announcement(source: str, error: Exception) -> str:
    """Append a statement to Inductor's module that makes the announcement when it is loaded.

    A later process may load the module from a cache without running any of our code, so the module
    has to announce it itself.
    """
    module = __name__
    return f"{source}\n\nfrom {module} import announce\nannounce({str(error)!r})\n"


# Compilations that Inductor sends to another process and that are ours there too.
#
# With ``TORCHINDUCTOR_FX_COMPILE_MODE=SUBPROCESS`` Inductor pickles a graph with everything that
# its compilation depends on, compiles it in a separate process, and takes back the compiled graph.
# Whether a compilation is ours is state of a context, which is not pickled: without this the other
# process would use Inductor's own wrapper, and caches of this one would store the result as ours.


@dataclass(frozen=True)
class _Request:
    """A request to another process that makes its compilation ours there."""

    stock: Any  #: Inductor's request
    within: Within  #: makes the context in which to compile it; picklable

    def deserialize(self) -> Any:
        """Return the request as Inductor reads it, with our context in its state."""
        request = self.stock.deserialize()
        request.virtualized = _State(request.virtualized, self.within)
        return request


@dataclass(frozen=True)
class _State:
    """Inductor's global state of a compilation, inside our context."""

    stock: Any
    within: Within

    @contextlib.contextmanager
    def patch(self) -> Iterator[None]:
        """Set the state for the length of a block."""
        with self.within(), self.stock.patch():
            yield


def with_context(
    within: Callable[[Session], contextlib.AbstractContextManager[None]], stock: Callable[..., Any]
) -> Callable[..., Any]:
    """Wrap Inductor's function that makes requests to other processes to add our context.

    A program that this process waits for must be made here: for such a graph it returns None, as
    Inductor's function does for a graph that cannot be pickled.
    """

    @wraps(stock)
    def serialize_compile(self: Any, *args: Any) -> Any:
        session = maker()
        if session is None:
            return stock(self, *args)
        if session.capture or open_recorders(session):
            return None
        serialized = stock(self, *args)
        if serialized is None:
            return None
        request, constants = serialized
        return _Request(request, partial(within, Session(session.settings))), constants

    return serialize_compile
