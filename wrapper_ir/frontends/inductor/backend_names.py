"""Torch's registry of backends, in which threads may register one backend at a time twice.

``torch.compile(model, backend="wrapper_ir")`` loads our entry point and then registers what it got.
Torch checks for the name before it loads, takes no lock, and refuses a name that is registered
already. Threads that compile for the first time therefore all load, one of them registers, and the
others fail. Loading is the only step that is ours, so it makes registering again harmless.
"""

from __future__ import annotations

import threading
from typing import Any

from wrapper_ir.frontends.inductor.compat import backend_registry


class _Repeatable(dict[str, Any]):
    """Torch's table of backends by name; of some names it never says that it has them.

    Torch then loads and registers these once more, which changes nothing.
    """

    def __init__(self, table: dict[str, Any]) -> None:
        super().__init__(table)
        self.names: set[str] = set()

    def __contains__(self, name: object) -> bool:
        return name not in self.names and super().__contains__(name)


_lock = threading.Lock()


def let_register_again(name: str) -> None:
    """Let threads register the backend of an entry point again, which would be an error."""
    with _lock:
        table = backend_registry._COMPILER_FNS
        if not isinstance(table, _Repeatable):
            ours = _Repeatable(table)
            backend_registry._COMPILER_FNS = ours
            # What another thread registered between the two lines above.
            ours.update(table)
            table = ours
        table.names.add(name)
