"""Texts and kernels that a program's library is built from, and what builds and loads know of it.

Emitters make it, builds take it, and so does the module that a cache or a folder keeps, which knows
of no program.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from wrapper_ir.devices import CPU, CppSide, DeviceKind, kind_of
from wrapper_ir.options.gpu import GRAPH_LIMIT
from wrapper_ir.toolchain.parts import Part
from wrapper_ir.toolchain.source import CppUnit
from wrapper_ir.toolchain.triton import GpuUnit


@dataclass(frozen=True, slots=True)
class Manifest:
    """The parts of the runtime that the generated files of a program need.

    Attributes:
        parts: The parts of the runtime that they use.
        levels: The levels of their probes, each once, in the order of the program.
        type: Torch's type of the device that the program runs on: the CPU if it needs no other.
    """

    parts: frozenset[Part] = frozenset()
    levels: tuple[str, ...] = ()
    type: str = CPU.type

    @property
    def device(self) -> DeviceKind:
        """The kind of that device."""
        return kind_of(self.type)

    @property
    def sides(self) -> tuple[CppSide, ...]:
        """The C++ sides of the host, and of the device if it is another."""
        sides = (kind_of(each).cpp for each in dict.fromkeys((CPU.type, self.type)))
        return tuple(side for side in sides if side is not None)


@dataclass(frozen=True, slots=True)
class CaptureFacts:
    """Facts needed to capture a program's calls: plain data, the same for every target.

    Attributes:
        program: Its name.
        device: Its GPU; empty where there are reasons.
        writes: Positions of inputs that it writes to.
        constants: Names of its constants on the GPU.
        limit: How many graphs are kept.
        results: Whose memory results are.
        reasons: Why its calls cannot be captured, where that is so.
        is_random: Whether its calls may draw random numbers.
        has_branches: Whether it puts work on branches: what it writes to is then to share no memory
            with anything else, since order is by names.
    """

    program: str
    device: str = ""
    writes: tuple[int, ...] = ()
    constants: tuple[str, ...] = ()
    limit: int = GRAPH_LIMIT.default  # type: ignore[assignment]  # it is of the option's kind
    results: str = "fresh"
    reasons: tuple[str, ...] = ()
    is_random: bool = False
    has_branches: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Sources:
    """The files and kernels that a library is built from.

    Attributes:
        sources: The text of each file by name. Names that end in ``.cpp`` are compiled, each by
            itself; the others are headers, in the same folder.
        kernels: The C++ kernels, each once.
        gpu_kernels: The Triton kernels, each once; the build has Triton compile them.
        manifest: What the files need besides: parts of the runtime.
    """

    sources: Mapping[str, str]
    kernels: tuple[CppUnit, ...]
    gpu_kernels: tuple[GpuUnit, ...] = ()
    manifest: Manifest = Manifest()
