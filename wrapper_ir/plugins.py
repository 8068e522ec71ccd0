"""Entry points of installed packages.

Python reads a file of every installed package for each query, which takes tens of milliseconds. So
the answer is kept until a directory of the module path changes, as it does when a package is
installed, or until something else looks for modules.
"""

from __future__ import annotations

import os
import sys
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from typing import Final

EMITTERS: Final = "wrapper_ir.emitters"
"""The entry point group of emitters."""

DEVICES: Final = "wrapper_ir.devices"
"""The entry point group of kinds of devices."""

#: What the last answer depended on, and the answer.
_last: tuple[list[object], EntryPoints] | None = None


def plugins(group: str, name: str | None = None) -> tuple[EntryPoint, ...]:
    """Return the entry points of one of the groups above, or those with a name."""
    global _last
    places: list[object] = [*sys.meta_path, *((path, _changed(path)) for path in sys.path)]
    last = _last
    if last is None or last[0] != places:
        groups = (EMITTERS, DEVICES)
        found = EntryPoints(point for each in groups for point in entry_points(group=each))
        last = _last = (places, found)
    chosen = last[1].select(group=group)
    return tuple(chosen if name is None else chosen.select(name=name))


def package_of(point: EntryPoint) -> str:
    """Return the package that an entry point belongs to, with its version."""
    dist = point.dist
    return "a package without a name" if dist is None else f"{dist.name} {dist.version}"


def _changed(path: str) -> int:
    """Return when a directory last changed; 0 if it is none."""
    try:
        return os.stat(path or os.curdir).st_mtime_ns
    except OSError:
        return 0
