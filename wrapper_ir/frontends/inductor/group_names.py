"""Names of process groups that are the same on all ranks.

Torch numbers groups, and a rank counts those of others, too: the rows of a mesh have a name each.
Programs that all ranks share need one for "this rank's row". It is what the group is described as,
``mesh_tp`` for a mesh's dimension ``tp``, numbered by creation where a process has several such
groups. Torch's table of groups takes further names, so that ops find a group by this one as well.
"""

from __future__ import annotations

import threading
import weakref
from collections import Counter
from typing import Any, Final

from wrapper_ir.frontends.inductor import compat
from wrapper_ir.runtime._private import is_name_of_group

_lock: Final = threading.Lock()

_names: Final[weakref.WeakKeyDictionary[Any, str]] = weakref.WeakKeyDictionary()

#: How many groups have had a description, as long as the default group lives.
_counts: Counter[str] = Counter()
_world: list[weakref.ref[Any]] = []


def shared_name(group: Any) -> str:
    """Return the name by which the programs of all ranks call a group of this one.

    Ops find the group by that name from then on.
    """
    with _lock:
        if group not in _names:
            _name_all()
        # A group that this process is no member of has no place among its own.
        return _names.get(group) or str(group.group_name)


def shared_names(mesh: Any) -> tuple[str, ...]:
    """Return these names of the groups of a mesh's dimensions, and of those of its flat meshes.

    Torch may keep a mesh whose groups are gone.
    """
    return tuple(
        shared_name(compat.process_group(name)) if is_name_of_group(name) else name
        for name in compat.groups_of_mesh(mesh)
    )


def names_of(value: Any) -> tuple[str, ...]:
    """Return these names of the groups of a graph's input: it is one, or a mesh with some."""
    value = getattr(value, "real_obj", value)
    return (shared_name(value),) if compat.is_process_group(value) else shared_names(value)


def _name_all() -> None:
    """Name the groups of this process that have no name, in the order of their creation."""
    world, *others = compat.own_groups()
    if not _world or _world[0]() is not world:
        _world[:] = [weakref.ref(world)]
        _counts.clear()
        _names.clear()
    _names[world] = str(world.group_name)
    for group in others:
        if group not in _names:
            _names[group] = name = _free(compat.description_of_group(group))
            compat.register_group(name, group)


def _free(description: str) -> str:
    """Return the next name for a description; names that torch gives are taken."""
    while True:
        number = _counts[description]
        _counts[description] += 1
        name = f"{description}.{number}" if number else description
        if not is_name_of_group(name):
            return name
