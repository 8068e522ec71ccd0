"""``install``: every compilation by Inductor in a block goes through us, whoever asked for it."""

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
        """Put back what ``install`` found, here and in what was installed inside; once."""
        stack = _stack.get()
        if self in stack:
            inner = stack[stack.index(self) + 1 :]
            for installation in reversed(inner):
                installation.uninstall()
            _stack.set(stack[: stack.index(self)])
        self._undo.close()

    def __enter__(self) -> Installation:
        """Go on with what ``install`` has begun."""
        return self

    def __exit__(self, *error: object) -> None:
        """Put back what was found, also after an exception."""
        self.uninstall()


_stack: ContextVar[tuple[Installation, ...]] = ContextVar("wrapper_ir.installations", default=())


def install(emitter: str | None = None, **options: Any) -> Installation:
    """Send every compilation by Inductor in this context through us, from here on.

    Use it as a context manager, or end it by ``uninstall()``. Installations nest; the innermost
    counts. Other threads are not concerned: their compilations stay Inductor's own. A function
    that Dynamo has compiled already is not compiled anew. Whoever compiled a forward compiles its
    backward, whenever and in whatever thread it is first run.

    Args:
        emitter: Name of the emitter; by default what ``wir.settings`` or the environment says.
        **options: As for ``torch.compile(..., backend="wrapper_ir", options=...)``, but for those
            that would be passed on to Inductor.

    Raises:
        OptionError: There is no such option.
        OptionValueError: There is, but not with that value.
    """
    chosen = {} if emitter is None else {"emitter": emitter}
    settings = Settings.from_options({**chosen, **options})
    for name, value in settings.inductor:  # a backward may come after the block
        expected = "the option left out: set it in torch._inductor.config or in torch.compile"
        raise OptionValueError(option=name, value=value, expected=expected)
    return Installation(Session(settings, hold=_hold, recorders=open_recorders()))


def _hold(trace: object) -> None:
    """Stay registered as long as a trace is there: its backward may be compiled yet."""
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
