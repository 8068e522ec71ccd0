"""Refusals of graphs without a typed form: an error, or Inductor's wrapper and a warning."""

from __future__ import annotations

import warnings

from wrapper_ir.frontends.inductor.session import Session, statistics


class StockFallbackWarning(UserWarning):
    """A graph was compiled with Inductor's own wrapper because it has no typed form."""


def may_refuse(session: Session) -> bool:
    """Return whether a graph without a typed form is an error, not left to Inductor."""
    return session.settings.on_unsupported == "raise" or session.capture


def refuse(session: Session, error: Exception) -> None:
    """Raise ``error``, unless the session lets Inductor's own wrapper stand in.

    Raises:
        Exception: ``error``, unless the session asks for ``on_unsupported="stock"``.
    """
    if may_refuse(session):
        raise error


def announce(message: str) -> None:
    """Count a graph that Inductor's own wrapper serves, and warn of it."""
    statistics.count_fallback()
    warnings.warn(
        f"a graph is compiled with Inductor's own wrapper: {message}",
        StockFallbackWarning,
        stacklevel=2,
    )


def announcing(source: str, error: Exception) -> str:
    """Return Inductor's module with a last statement that announces it where it is loaded.

    A later process may load it from a cache, without any of our code having run; so the module
    itself has to say it.
    """
    module = __name__
    return f"{source}\n\nfrom {module} import announce\nannounce({str(error)!r})\n"
