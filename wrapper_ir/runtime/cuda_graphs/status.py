"""Status of captured functions: numbers of replayed calls, and reasons why others were not.

Python functions report here; exported libraries, which capture their own calls, are queried.
"""

from __future__ import annotations

import ctypes
import functools
import json
import logging
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final, Protocol

from wrapper_ir.runtime.living import OPENED_FROM_MEMORY, Living

_logger: Final = logging.getLogger("wrapper_ir.cuda_graphs")


@dataclass(frozen=True, slots=True)
class GraphStatus:
    """The status of a function's calls so far.

    Attributes:
        program: The program's name.
        graphs: The number of captured graphs that are kept.
        captures: The number of captures, including graphs that were dropped again.
        replays: The number of calls that replayed a graph.
        plain: The number of calls that ran the program itself, warm-up calls included.
        reasons: The reasons why calls ran the program itself, with the number of calls; warm-up
            calls have none.
        refused: True if no call will be captured any more.
    """

    program: str
    graphs: int
    captures: int
    replays: int
    plain: int
    reasons: Mapping[str, int]
    refused: bool


class Journal:
    """Counters of a function's calls, and reasons known at the start why none can be captured."""

    def __init__(self, program: str, reasons: tuple[str, ...] = ()) -> None:
        self.program = program
        self.captures: int = 0
        self.replays: int = 0
        self.plain: int = 0
        self.refused = reasons
        self._reasons: dict[str, int] = {}

    def ran(self, *reasons: str) -> None:
        """Record a call that ran the program itself, and why; log the first of each reason."""
        self.plain += 1
        for reason in reasons:
            count = self._reasons[reason] = self._reasons.get(reason, 0) + 1
            if count == 1:
                text = "calls of '%s' are not replayed as a CUDA graph: %s"
                _logger.warning(text, self.program, reason)

    def status(self, graphs: int) -> GraphStatus:
        """Return the status of calls so far."""
        counts = (graphs, self.captures, self.replays, self.plain)
        return GraphStatus(self.program, *counts, dict(self._reasons), bool(self.refused))


class _Reporting(Protocol):
    @property
    def status(self) -> GraphStatus: ...


everything: Final[Living[_Reporting]] = Living()
"""All captured functions of the process."""


def statuses() -> list[GraphStatus]:
    """Return the status of every captured function of the process, by name."""
    return sorted((each.status for each in everything.all()), key=lambda status: status.program)


# Exported libraries.

_FUNCTION: Final = b"WrapperIRModelContainerGetCudaGraphStatus"

#: The function that it calls, which is exported by libraries without containers.
_WITHOUT_CONTAINERS: Final = b"wir_graph_status"

_NAMES: Final = frozenset(each.name for each in fields(GraphStatus))

_MAPS: Final = Path("/proc/self/maps")


def library_statuses() -> Iterator[GraphStatus]:
    """Yield the status of each container of exported libraries in this process."""
    for path in _loaded():
        yield from statuses_of(path)


def statuses_of(path: str | os.PathLike[str]) -> list[GraphStatus]:
    """Return the same for one library; empty if it is not loaded or not one of ours."""
    libc = _libc()
    library = libc.dlopen(os.fsencode(path), os.RTLD_LAZY | os.RTLD_NOLOAD)
    if not library:
        return []
    try:
        if address := libc.dlsym(library, _FUNCTION):
            asked = _asked(address)
        elif address := libc.dlsym(library, _WITHOUT_CONTAINERS):
            function = ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.c_void_p)(address)
            asked = json.loads(function(None).decode("utf-8", "replace"))
        else:
            asked = []
        # A library may be of another version and report other fields.
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
    """Return the libraries of this process that are listed by the system or opened from memory."""
    if not _MAPS.exists():
        return []
    rows = [row.split(maxsplit=5) for row in _MAPS.read_text("utf-8", "replace").splitlines()]
    files = {row[5] for row in rows if len(row) > 5 and row[5].endswith(".so")}
    return sorted(files | OPENED_FROM_MEMORY)


@functools.cache
def _libc() -> ctypes.CDLL:
    """Return ``dlopen`` and its kin; ctypes itself would never close a library."""
    libc = ctypes.CDLL(None)
    libc.dlopen.argtypes = [ctypes.c_char_p, ctypes.c_int]
    libc.dlopen.restype = ctypes.c_void_p
    libc.dlsym.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
    libc.dlsym.restype = ctypes.c_void_p
    libc.dlclose.argtypes = [ctypes.c_void_p]
    return libc
