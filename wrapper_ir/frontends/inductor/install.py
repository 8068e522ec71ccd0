"""``install``: in its block every compilation by Inductor is ours, whoever starts it."""

from __future__ import annotations

import contextlib
import weakref
from contextvars import ContextVar
from typing import Any

from wrapper_ir.errors import OptionValueError
from wrapper_ir.frontends.inductor.errors import InstallOrderError
from wrapper_ir.frontends.inductor.registration import acquire, release, release_unawaited
from wrapper_ir.frontends.inductor.session import Session, open_recorders, set_session
from wrapper_ir.frontends.inductor.settings import Settings


class Installation:
    """The state between ``install()`` and ``uninstall()``; as a context manager it ends itself."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._undo = contextlib.ExitStack()
        acquire()
        self._undo.callback(release)
        self._undo.callback(set_session, set_session(session))
        _stack.set((*_stack.get(), self))

    def uninstall(self) -> None:
        """Restore what ``install`` replaced, for this and all inner installations; only once."""
        stack = _stack.get()
        if self in stack:
            inner = stack[stack.index(self) + 1 :]
            for installation in reversed(inner):
                installation.uninstall()
            _stack.set(stack[: stack.index(self)])
        self._undo.close()

    def __enter__(self) -> Installation:
        """Return the installation, which is already in effect."""
        return self

    def __exit__(self, *error: object) -> None:
        """Uninstall, also after an exception."""
        self.uninstall()


_stack: ContextVar[tuple[Installation, ...]] = ContextVar("wrapper_ir.installations", default=())


def install(emitter: str | None = None, **options: Any) -> Installation:
    """Route every compilation by Inductor in this context through us, from now on.

    Use it as a context manager, or end it with ``uninstall()``. Installations nest; the innermost
    wins. Other threads are not affected: their compilations remain Inductor's own. A function that
    Dynamo has already compiled is not compiled again. A backward is compiled by whatever compiled
    its forward, whenever and in whichever thread it first runs.

    Args:
        emitter: Name of the emitter; the default comes from ``wir.settings`` or the environment.
        **options: As for ``torch.compile(..., backend="wrapper_ir", options=...)``, except for
            those that would be passed on to Inductor.

    Raises:
        OptionError: There is no such option.
        OptionValueError: The option exists, but not with that value.
    """
    chosen = {} if emitter is None else {"emitter": emitter}
    settings = Settings.from_options({**chosen, **options})
    for name, value in settings.inductor:  # a backward may come after the block
        expected = "the option left out: set it in torch._inductor.config or in torch.compile"
        raise OptionValueError(option=name, value=value, expected=expected)
    return Installation(Session(settings, hold=_hold, recorders=open_recorders()))


def _hold(trace: object) -> None:
    """Stay registered while a trace is alive, because its backward may still be compiled."""
    acquire()
    weakref.finalize(trace, release_unawaited)


def uninstall() -> None:
    """End the innermost installation of this context.

    Raises:
        InstallOrderError: There is none.
    """
    installations = _stack.get()
    if not installations:
        raise InstallOrderError
    installations[-1].uninstall()
