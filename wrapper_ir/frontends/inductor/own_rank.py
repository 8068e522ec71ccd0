"""Graphs that hold the number of their rank, which no other rank may load.

Keys of ``compile_on_one_rank`` are equal on all ranks, and are computed before a graph is traced.
Torch takes what differs from rank to rank out of such graphs, but not all of it: over gloo, a
tensor that is split anew is a part of a larger one, chosen by a number; so is the input of several
collectives that Inductor has made one of. A subclass of tensors may do the same. All of them ask
for their rank meanwhile. What was compiled then is not stored, and it is noted that the graph asks:
from the next time on, its keys hold the rank.
"""

from __future__ import annotations

import contextlib
import hashlib
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, Final

import torch

from wrapper_ir.frontends.inductor import compat
from wrapper_ir.toolchain.cache import default_cache

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

#: What the cache calls the note that a graph asks for its rank.
_KIND: Final = "rank"

#: The methods of a mesh that give a rank as a number.
_ASKING: Final = ("get_rank", "get_local_rank", "_sym_get_coordinate")


@dataclass(slots=True)
class _Graph:
    """One of Dynamo's graphs while it is compiled."""

    key: str = ""  #: torch's, without a rank
    asks: bool = False
    rank: int | None = None  #: what its keys hold, if they hold it


_current: ContextVar[_Graph | None] = ContextVar("current", default=None)


def places() -> tuple[tuple[Any, str, Callable[[Any], Any]], ...]:
    """Return what we replace in torch's caches, as places in the table of replacements."""
    return (
        (compat.autograd_cache, "autograd_cache_key", _with_rank),
        (compat.AOTAutogradCache, "save", _unless_asked),
        (compat.FxGraphCache, "_save_graph", _unless_asked),
    )


@contextlib.contextmanager
def watched() -> Iterator[None]:
    """Note whether the graph that is compiled in the block asks for its rank."""
    graph = _Graph()
    token = _current.set(graph)
    try:
        with compat.asked_for_rank(_ask):
            yield
        if graph.key and graph.asks and graph.rank is None:
            default_cache().put(_digest(graph.key), _KIND, b"")
    finally:
        _current.reset(token)


def in_keys() -> int | None:
    """Return the rank that the keys of the current graph hold, or None."""
    graph = _current.get()
    return None if graph is None else graph.rank


def _ask(caller: FrameType | None) -> None:
    graph = _current.get()
    if graph is None or caller is None:
        return
    module = str(caller.f_globals.get("__name__"))
    # Torch's logs name the rank in each of their lines, and a part of a mesh knows its rank.
    is_told = module.startswith("torch._logging") or (
        module.endswith(".device_mesh") and caller.f_code.co_name not in _ASKING
    )
    graph.asks |= not is_told


def _with_rank(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap the function for a graph's key, so that it holds the rank if the graph asks for it."""

    @wraps(stock)
    def autograd_cache_key(*args: Any, **kwargs: Any) -> Any:
        key, lines = stock(*args, **kwargs)
        graph = _current.get()
        if graph is None:
            return key, lines
        graph.key = key
        if default_cache().get_bytes(_digest(key), _KIND) is not None:
            graph.rank = torch.distributed.get_rank()
            key = f"{key}_rank{graph.rank}"
        return key, lines

    return autograd_cache_key


def _unless_asked(stock: Callable[..., Any]) -> Any:
    """Wrap a method that stores what was compiled."""

    @wraps(stock)
    def save(*args: Any, **kwargs: Any) -> Any:
        graph = _current.get()
        if graph is not None and graph.asks and graph.rank is None:
            return None
        return stock(*args, **kwargs)

    return staticmethod(save)


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()
