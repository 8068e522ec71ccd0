"""Functions of the user's that are told what calls read and write.

A program holds no function: its probes of the level ``hook`` report to whatever is registered when
they are reached.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from torch import Tensor

__all__ = ["Hook", "Hooked", "ProbeEvent", "hook", "report"]


@dataclass(frozen=True, slots=True)
class ProbeEvent:
    """A call about to be made, or just made.

    Attributes:
        call: The call's number in four digits, in the order of the program's text, and its name.
        when: ``before`` or ``after``.
        tensors: Before: what the call reads; after: what it wrote. By the buffers' names, constants
            by their qualified names. They are the program's own, to be looked at only, and hold
            these values until the hook returns; what is kept must be cloned.
        scalars: Before: the numbers that the call is given, in order, expressions being named.
        source: Where in the model the call comes from, ``file.py:12``; empty where not known.
    """

    call: str
    when: str
    tensors: Mapping[str, Tensor]
    scalars: tuple[tuple[str, Any], ...] = ()
    source: str = ""

    @property
    def name(self) -> str:
        """Name of the kernel or op."""
        return self.call.partition(" ")[2]


Hook: TypeAlias = Callable[[ProbeEvent], object]


class _Registered(threading.local):
    """The hooks of the call that a thread is in: those that were given to ``compile``."""

    hooks: tuple[Hook, ...] = ()


_of_thread = _Registered()
_of_process: list[Hook] = []


@contextlib.contextmanager
def hook(function: Hook) -> Iterator[None]:
    """Have every probe of the level ``hook`` call a function, for the length of a block.

    It is called in all threads. What it raises goes through the program to whoever called that.

    Args:
        function: Called with a :class:`ProbeEvent`.
    """
    if not callable(function):
        raise TypeError(f"a hook must be callable, not {type(function).__name__}")
    _of_process.append(function)
    try:
        yield
    finally:
        _of_process.remove(function)


def report(event: ProbeEvent) -> None:
    """Call every hook, in the order of registration."""
    for function in (*_of_process, *_of_thread.hooks):
        function(event)


class Hooked:
    """A loaded program whose probes report to a function, in the calls made through this object."""

    def __init__(self, program: Callable[..., tuple[Any, ...]], function: Hook) -> None:
        self._program = program
        self._function = function

    def __call__(self, *inputs: object) -> tuple[Any, ...]:
        """Call the program."""
        before = _of_thread.hooks
        _of_thread.hooks = (*before, self._function)
        try:
            return self._program(*inputs)
        finally:
            _of_thread.hooks = before

    def __getattr__(self, name: str) -> object:
        """Delegate to the loaded program."""
        return getattr(self._program, name)
