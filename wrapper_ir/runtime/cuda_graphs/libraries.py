"""Exported libraries that capture their calls by themselves: what they say of them."""

from __future__ import annotations

import ctypes
import functools
import json
import os
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from wrapper_ir.runtime.cuda_graphs.status import GraphStatus

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["OPENED_FROM_MEMORY", "library_statuses", "statuses_of"]

OPENED_FROM_MEMORY: Final[set[str]] = set()
"""Libraries that are no files: the names that they were opened by, which the system tells not."""

_FUNCTION: Final = b"WrapperIRModelContainerGetCudaGraphStatus"

_NAMES: Final = frozenset(each.name for each in fields(GraphStatus))

_MAPS: Final = Path("/proc/self/maps")


def library_statuses() -> Iterator[GraphStatus]:
    """Yield the status of each container of exported libraries in this process."""
    for path in _loaded():
        yield from statuses_of(path)


def statuses_of(path: str | os.PathLike[str]) -> list[GraphStatus]:
    """The same for one library; nothing if it is not loaded, or none of ours."""
    libc = _libc()
    library = libc.dlopen(os.fsencode(path), os.RTLD_LAZY | os.RTLD_NOLOAD)
    if not library:
        return []
    try:
        address = libc.dlsym(library, _FUNCTION)
        asked = _asked(address) if address else []
        # A library may be of another version, and tell other things.
        return [
            GraphStatus(**{name: each[name] for name in _NAMES})
            for each in asked
            if each.keys() >= _NAMES
        ]
    finally:
        libc.dlclose(library)


def _asked(address: int) -> list[dict[str, Any]]:
    function = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_char_p))
    text = ctypes.c_char_p()
    if function(address)(None, ctypes.byref(text)) != 0 or text.value is None:
        return []
    found: list[dict[str, Any]] = json.loads(text.value.decode("utf-8", "replace"))
    return found


def _loaded() -> list[str]:
    """The libraries of this process, as far as the system tells."""
    if not _MAPS.exists():
        return []
    rows = [row.split(maxsplit=5) for row in _MAPS.read_text("utf-8", "replace").splitlines()]
    files = {row[5] for row in rows if len(row) > 5 and row[5].endswith(".so")}
    return sorted(files | OPENED_FROM_MEMORY)


@functools.cache
def _libc() -> ctypes.CDLL:
    """The functions by which libraries are looked at; ctypes would never let go of one."""
    libc = ctypes.CDLL(None)
    libc.dlopen.argtypes = [ctypes.c_char_p, ctypes.c_int]
    libc.dlopen.restype = ctypes.c_void_p
    libc.dlsym.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
    libc.dlsym.restype = ctypes.c_void_p
    libc.dlclose.argtypes = [ctypes.c_void_p]
    return libc
