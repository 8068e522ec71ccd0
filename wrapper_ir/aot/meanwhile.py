"""Calls of a program in C++ while its library is built: emitted Python serves them.

A library takes seconds to build, and emitted Python runs as soon as its kernels are there. So the
first calls go to Python; when the first one is done, the library is built in a thread, and the
first call after that goes to it, as do all others. Both are emitted from the same program and call
the same kernels and ops, so the results have the same bits.

If the library cannot be built, calls stay in Python, and a warning says why. In a process that was
forked meanwhile they stay there, too. While a CUDA graph of the caller's is being captured no call
moves. When calls have moved, the Python module goes, with its kernels and what it kept, unless such
a graph recorded one of its calls: replays use both.
"""

from __future__ import annotations

import hashlib
import logging
import threading
import time
import types
from typing import TYPE_CHECKING, Any, Final

from wrapper_ir.errors import WrapperIRError
from wrapper_ir.runtime._private_cuda import is_capturing
from wrapper_ir.runtime.living import Living
from wrapper_ir.toolchain.cache import default_cache
from wrapper_ir.toolchain.processes import StoppedError, in_background

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    BoxedCall = Callable[[list[Any]], tuple[Any, ...]]

__all__ = ["wait_for_builds"]

_log: Final = logging.getLogger("wrapper_ir.aot")

#: The kind of the entries in the cache that say that a library was built.
_BUILT: Final = "built"


def served(
    build: Callable[[], BoxedCall],
    sources: object,
    text: str,
    names: Mapping[str, str],
    variables: Mapping[str, Any],
) -> BoxedCall:
    """Return a boxed function that is at first Python's, and the library's once that is built.

    If the library was built before, it is loaded now, and an error of that is raised.

    Args:
        build: Builds or finds the library, loads it, and returns its function.
        sources: What the library is built from; equal ``repr`` means the same library.
        text: The emitted Python module.
        names: The program's constants, by the variable of that module that holds each.
        variables: The program's constants, by name; they are there by the first call.
    """
    key = hashlib.sha256(f"meanwhile {sources!r}".encode()).hexdigest()
    if default_cache().get_bytes(key, _BUILT) is not None:
        return build()

    def make() -> BoxedCall:
        function = build()
        default_cache().put(key, _BUILT, b"")
        return function

    return _Served(make, _Python(text, names, variables))


class _Python:
    """The emitted Python module of a program; the arguments are as for :func:`served`."""

    def __init__(self, text: str, names: Mapping[str, str], variables: Mapping[str, Any]) -> None:
        self._module = types.ModuleType("wrapper_ir_meanwhile")
        exec(compile(text, "<wrapper_ir meanwhile>", "exec"), self._module.__dict__)
        self._names, self._variables = names, variables
        self.call: BoxedCall = self._module.call

    def prepare(self) -> None:
        """Give the module its constants."""
        for variable, name in self._names.items():
            setattr(self._module, variable, self._variables[name])

    def release(self) -> None:
        """Free the memory that the module keeps between calls."""
        release = getattr(self._module, "release", None)
        if release is not None:
            release()


class _Served:
    """A boxed function that moves from Python to a library, which ``make`` builds."""

    def __init__(self, make: Callable[[], BoxedCall], python: _Python) -> None:
        self._make = make
        #: What serves calls until they move; None from then on.
        self._python: _Python | None = python
        #: The same, once a CUDA graph of the caller's has recorded a call.
        self._recorded: _Python | None = None
        self._made: BoxedCall | None = None
        self._guard = threading.Lock()
        self._builder: threading.Thread | None = None
        self._call: BoxedCall = self._first

    @property
    def __wrapped__(self) -> BoxedCall:
        """What serves calls now."""
        python = self._python
        return self._call if python is None else python.call

    def __call__(self, args: list[Any]) -> tuple[Any, ...]:
        """Run the program on a list of inputs, which is emptied."""
        return self._call(args)

    def _first(self, args: list[Any]) -> tuple[Any, ...]:
        python = self._python
        if python is None:  # another thread's call has moved since this one began
            return self._call(args)
        python.prepare()
        results = self._in_python(python, args)
        with self._guard:
            if self._builder is None:
                self._call = self._until_built
                self._builder = in_background("build", self._build)
                _building.add(self)
        return results

    def _build(self) -> None:
        try:
            self._made = self._make()
        except Exception as error:
            assert self._python is not None  # no call has moved
            self._call = self._python.call
            if isinstance(error, StoppedError):  # the process ends
                return
            what = error.message if isinstance(error, WrapperIRError) else repr(error)
            _log.warning("calls go on in Python, since the C++ library cannot be built: %s", what)

    def _until_built(self, args: list[Any]) -> tuple[Any, ...]:
        python, made = self._python, self._made
        if made is None or (python is not None and is_capturing()):
            assert python is not None  # no call has moved
            return self._in_python(python, args)
        self._call, self._python = made, None
        if python is not None and self._recorded is None:
            python.release()
        return made(args)

    def _in_python(self, python: _Python, args: list[Any]) -> tuple[Any, ...]:
        if self._recorded is None and is_capturing():
            self._recorded = python
        return python.call(args)

    def wait(self, seconds: float | None) -> bool:
        """Wait until the library is there, or cannot be built; return False after ``seconds``."""
        builder = self._builder
        if builder is not None and builder is not threading.current_thread():
            builder.join(seconds)
            return not builder.is_alive()
        return True


_building: Final[Living[_Served]] = Living()


def wait_for_builds(timeout: float | None = None) -> bool:
    """Wait for libraries that are built in the background: later calls go to them.

    Args:
        timeout: The longest time to wait, in seconds; by default there is no limit.

    Returns:
        False if time ran out.
    """
    end = None if timeout is None else time.monotonic() + timeout
    return all(
        each.wait(None if end is None else max(0.0, end - time.monotonic()))
        for each in _building.all()
    )
