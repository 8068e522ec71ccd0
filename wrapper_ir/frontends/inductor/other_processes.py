"""Compilations that Inductor sends to another process and that are ours there too.

With ``TORCHINDUCTOR_FX_COMPILE_MODE=SUBPROCESS`` Inductor pickles a graph with everything that its
compilation depends on, compiles it in a separate process, and takes back the compiled graph.
Whether a compilation is ours is state of a context, which is not pickled: without this module the
other process would use Inductor's own wrapper, and caches of this one would store the result as
ours.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from functools import partial, wraps
from typing import TYPE_CHECKING, Any

from wrapper_ir.frontends.inductor.identity import maker
from wrapper_ir.frontends.inductor.session import Session, open_recorders

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Within = Callable[[], contextlib.AbstractContextManager[None]]


@dataclass(frozen=True)
class _Request:
    """A request to another process that makes its compilation ours there.

    Attributes:
        stock: Inductor's request.
        within: Makes the context in which to compile it; picklable.
    """

    stock: Any
    within: Within

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
    within: Callable[[Session], contextlib.AbstractContextManager[None]],
    stock: Callable[..., Any],
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
