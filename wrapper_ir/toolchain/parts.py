"""Facts of the runtime part: what only some programs need of it, and numbers of its interface."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection


ALIGNMENT: Final = 64
"""Bytes; where constants begin. Torch aligns its own storages so, and none need be copied."""

DTYPE_NUMBERS: Final = {
    "uint8": 0,
    "int8": 1,
    "int16": 2,
    "int32": 3,
    "int64": 4,
    "float16": 5,
    "float32": 6,
    "float64": 7,
    "complex32": 8,
    "complex64": 9,
    "complex128": 10,
    "bool": 11,
    "qint8": 12,
    "quint8": 13,
    "qint32": 14,
    "bfloat16": 15,
    "float8_e5m2": 23,
    "float8_e4m3fn": 24,
    "float8_e5m2fnuz": 25,
    "float8_e4m3fnuz": 26,
    "uint16": 27,
    "uint32": 28,
    "uint64": 29,
    "float8_e8m0fnu": 44,
    "float4_e2m1fn_x2": 45,
}
"""Numbers of dtypes in ``c10::ScalarType``: they are stored in files and never change."""


class Part(StrEnum):
    """A part of the runtime that only some programs need, called as its files are."""

    OPS = "op"
    """Calls of library ops through the dispatcher (``wir::Op``). It takes several times as long to
    compile as all others."""
    HEAP = "heap"
    """Keeping what library ops allocate (``wir::Heap``)."""
    GPU = "gpu"
    """Running on a GPU (``wir::GpuCall``)."""
    BLAS = "blas"
    """Calls of cuBLAS (``wir::current_blas``)."""
    OWN_OPS = "own_ops"
    """Ops that a front end of ours registers from Python. It needs ``OPS``."""
    PROBES = "probe"
    """Probes that report to the library itself."""
    GRAPHS = "graph"
    """Capturing calls as CUDA graphs (``wir::GraphInfo``)."""
    PIECES = "pieces"
    """Capturing pieces of calls (``wir::Piece``), which Python cannot do for a program."""
    OBJECTS = "objects"
    """Objects of custom classes, made from their bytes (``wir::ObjectSpec``)."""


OWN_OPS: Final = "wrapper_ir_inductor::"
"""The namespace of the ops that ``own_ops.cpp`` has."""

#: What Python does where it loads a program, and a library that runs alone has to do itself.
_ALONE: Final = frozenset((Part.PROBES, Part.GRAPHS, Part.OBJECTS))


def needed_parts(parts: Collection[Part], *, alone: bool) -> frozenset[Part]:
    """Return which parts a library takes of those that its program names.

    Args:
        parts: What the program needs.
        alone: Whether the library is to run without Python.
    """
    left = frozenset() if alone else _ALONE - ({Part.GRAPHS} if Part.PIECES in parts else set())
    return frozenset(parts) - left


def aligned(position: int) -> int:
    """Return the next place in the blob where something may begin."""
    return -(-position // ALIGNMENT) * ALIGNMENT
