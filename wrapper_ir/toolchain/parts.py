"""Facts about the C++ runtime: its optional parts, and the numbers in its interface."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection


ALIGNMENT: Final = 64
"""Alignment of constants in bytes. Torch aligns its own storages alike, so none must be copied."""

_NUMBERED: Final = """
uint8 int8 int16 int32 int64 float16 float32 float64 complex32 complex64 complex128 bool
qint8 quint8 qint32 bfloat16
"""
DTYPE_NUMBERS: Final = {
    **{name: number for number, name in enumerate(_NUMBERED.split())},
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
"""The number of each dtype in ``c10::ScalarType``. Files store them, so they never change."""


class Part(StrEnum):
    """An optional part of the runtime. Each value is the prefix of the part's file names."""

    OPS = "op"
    """Calls of library ops through the dispatcher (``wir::Op``). It takes several times as long to
    compile as all other parts together."""
    HEAP = "heap"
    """Memory that library ops allocate, kept between calls (``wir::Heap``)."""
    GPU = "gpu"
    """Running on a GPU (``wir::GpuCall``)."""
    BLAS = "blas"
    """Calls of cuBLAS (``wir::mm``)."""
    OWN_OPS = "own_ops"
    """Ops that one of our front ends registers from Python. It needs ``OPS``."""
    PROBES = "probe"
    """Probes that report to the library itself."""
    GRAPHS = "graph"
    """Capture of whole calls as CUDA graphs (``wir::GraphInfo``)."""
    PIECES = "pieces"
    """Capture of pieces of a call (``wir::Piece``), which Python cannot do for a program."""
    OBJECTS = "objects"
    """Objects of custom classes, restored from bytes (``wir::ObjectSpec``)."""


OWN_OPS: Final = "wrapper_ir_inductor::"
"""The namespace of the ops that ``own_ops.cpp`` defines."""

#: Parts whose work Python does for a program it loads; only a standalone library needs them.
_ALONE: Final = frozenset((Part.PROBES, Part.GRAPHS, Part.OBJECTS))


def needed_parts(parts: Collection[Part], *, alone: bool) -> frozenset[Part]:
    """Return the parts that a library links, out of those that its program needs.

    Args:
        parts: The parts that the program needs.
        alone: Whether the library will run without Python.
    """
    done_by_python = _ALONE - ({Part.GRAPHS} if Part.PIECES in parts else set())
    return frozenset(parts) - (frozenset() if alone else done_by_python)


def aligned(position: int) -> int:
    """Return the first aligned offset at or after a position in the blob."""
    return -(-position // ALIGNMENT) * ALIGNMENT
