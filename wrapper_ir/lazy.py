"""Names of a package that are imported on first use (PEP 562).

Packages whose modules are slow to import, or need torch, list the names with the modules that
define them. Inside a function, an import that is seldom needed stays an import statement.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


def names_of(
    package: str, defined_in: Mapping[str, Iterable[str]], modules: Iterable[str] = ()
) -> Callable[[str], object]:
    """Return the ``__getattr__`` of a package.

    A package assigns it where type checkers do not see it: to them, a package with
    ``__getattr__`` has every possible name. ``defined_in`` holds its lazy names by the module that
    defines them, which may be relative; ``modules`` are available without importing them first.
    """
    homes = {name: home for home, names in defined_in.items() for name in names}
    known = frozenset(modules)

    def look_up(name: str) -> object:
        if name in homes:
            found: object = getattr(import_module(homes[name], package), name)
        elif name in known:
            found = import_module(f"{package}.{name}")
        else:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        setattr(sys.modules[package], name, found)
        return found

    return look_up
