"""The texts and kernels that a library is built from, and the facts that builds and loads need.

Emitters produce them. Builds consume them, and so does the module that a cache or a folder keeps,
which has no program at hand.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from wrapper_ir.devices import CPU, CppSide, DeviceKind, kind_of
from wrapper_ir.options.gpu import GRAPH_LIMIT
from wrapper_ir.toolchain.source import CppUnit
from wrapper_ir.toolchain.triton import GpuUnit


@dataclass(frozen=True, slots=True)
class Manifest:
    """The needs of a program's generated files."""

    parts: frozenset[Part] = frozenset()  #: the parts of the runtime that they use
    levels: tuple[str, ...] = ()  #: the levels of the program's probes, in program order
    type: str = CPU.type  #: torch's type of the device; the CPU if it needs no other

    @property
    def device(self) -> DeviceKind:
        """The kind of the device that the program runs on."""
        return kind_of(self.type)

    @property
    def sides(self) -> tuple[CppSide, ...]:
        """The C++ side of the host, then that of the device if it is not the host."""
        sides = (kind_of(each).cpp for each in dict.fromkeys((CPU.type, self.type)))
        return tuple(side for side in sides if side is not None)


@dataclass(frozen=True, slots=True)
class CaptureFacts:
    """The facts needed to capture a program's calls: plain data, the same for every target."""

    program: str  #: its name
    device: str = ""  #: the GPU it runs on; empty if its calls cannot be captured
    writes: tuple[int, ...] = ()  #: positions of the inputs that it writes to
    constants: tuple[str, ...] = ()  #: names of its constants on the GPU
    #: the number of graphs that are kept
    limit: int = GRAPH_LIMIT.default  # type: ignore[assignment]  # it is of the option's kind
    results: str = "fresh"  #: the owner of the results' memory, as the option says
    reasons: tuple[str, ...] = ()  #: why its calls cannot be captured; empty if they can
    is_random: bool = False  #: whether its calls may draw random numbers
    #: Whether it puts work on branches. Memory that it writes to must then be shared with nothing
    #: else, because work on branches is ordered by buffer names.
    has_branches: bool = False
    #: Positions of inputs that graphs copy wherever they are, because ranks capture together.
    copied: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Sources:
    """The files and kernels that a library is built from; each kernel once.

    Each file whose name ends in ``.cpp`` is a translation unit; others are headers beside it.
    """

    sources: Mapping[str, str]  #: the text of each file by name
    kernels: tuple[CppUnit, ...]
    gpu_kernels: tuple[GpuUnit, ...] = ()  #: the build has Triton compile them
    manifest: Manifest = Manifest()


ALIGNMENT: Final = 64
"""Alignment of constants in bytes. Torch aligns its own storages alike, so none must be copied."""

_NUMBERED: Final = """
uint8 int8 int16 int32 int64 float16 float32 float64 complex32 complex64 complex128 bool
qint8 quint8 qint32 bfloat16
"""
_FROM_23: Final = "float8_e5m2 float8_e4m3fn float8_e5m2fnuz float8_e4m3fnuz uint16 uint32 uint64"
DTYPE_NUMBERS: Final = {
    **{name: number for number, name in enumerate(_NUMBERED.split())},
    **{name: number for number, name in enumerate(_FROM_23.split(), 23)},
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
    PEERS = "peers"
    """Memory that peers address (``wir::PeerMemory``)."""
    OBJECTS = "objects"
    """Objects of custom classes, restored from bytes (``wir::ObjectSpec``)."""


OWN_OPS: Final = "wrapper_ir_inductor::"
"""The namespace of the ops that ``own_ops.cpp`` defines."""

#: Parts whose work Python does for a program it loads; only a standalone library needs them.
_ALONE: Final = frozenset((Part.PROBES, Part.GRAPHS, Part.OBJECTS))


def needed_parts(parts: Collection[Part], *, alone: bool) -> frozenset[Part]:
    """Return the parts that a library links; ``alone`` if it will run without Python."""
    done_by_python = _ALONE - ({Part.GRAPHS} if Part.PIECES in parts else set())
    return frozenset(parts) - (frozenset() if alone else done_by_python)


def aligned(position: int) -> int:
    """Return the first aligned offset at or after a position in the blob."""
    return -(-position // ALIGNMENT) * ALIGNMENT
