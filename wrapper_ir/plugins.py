"""Entry points of installed packages.

Python reads a file of every installed package for each query, which takes tens of milliseconds. So
the answer is kept until a directory of the module path changes, as it does when a package is
installed.
"""

from __future__ import annotations

import os
import sys
from functools import lru_cache
from importlib.metadata import EntryPoint, EntryPoints, entry_points

EMITTERS = "wrapper_ir.emitters"
"""The entry point group of emitters."""

DEVICES = "wrapper_ir.devices"
"""The entry point group of kinds of devices."""


def plugins(group: str, name: str | None = None) -> tuple[EntryPoint, ...]:
    """Return the entry points of one of the groups above, or those with a name."""
    found = _installed(tuple((path, _changed(path)) for path in sys.path))
    return tuple(
        found.select(group=group) if name is None else found.select(group=group, name=name)
    )


@lru_cache(maxsize=2)
def _installed(_: tuple[tuple[str, int], ...]) -> EntryPoints:
    return EntryPoints(
        point for group in (EMITTERS, DEVICES) for point in entry_points(group=group)
    )


def _changed(path: str) -> int:
    """Return when a directory last changed; 0 if it is none."""
    try:
        return os.stat(path or os.curdir).st_mtime_ns
    except OSError:
        return 0
