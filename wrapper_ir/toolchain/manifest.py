"""The texts and kernels that a library is built from, and the facts that builds and loads need.

Emitters produce them. Builds consume them, and so does the module that a cache or a folder keeps,
which has no program at hand.
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
        levels: The levels of the program's probes, each once, in program order.
        type: Torch's type of the device that the program runs on; the CPU if it needs no other.
    """

    parts: frozenset[Part] = frozenset()
    levels: tuple[str, ...] = ()
    type: str = CPU.type

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
    """The facts needed to capture a program's calls: plain data, the same for every target.

    Attributes:
        program: The program's name.
        device: The GPU it runs on; empty if its calls cannot be captured.
        writes: Positions of the inputs that it writes to.
        constants: Names of its constants on the GPU.
        limit: The number of graphs that are kept.
        results: The owner of the results' memory, as the option says.
        reasons: The reasons why its calls cannot be captured; empty if they can.
        is_random: Whether its calls may draw random numbers.
        has_branches: Whether it puts work on branches. Memory that it writes to must then be shared
            with nothing else, because work on branches is ordered by buffer names.
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
        sources: The text of each file by name. Each file whose name ends in ``.cpp`` is a
            translation unit; the others are headers in the same folder.
        kernels: The C++ kernels, each once.
        gpu_kernels: The Triton kernels, each once; the build has Triton compile them.
        manifest: What else the files need, such as parts of the runtime.
    """

    sources: Mapping[str, str]
    kernels: tuple[CppUnit, ...]
    gpu_kernels: tuple[GpuUnit, ...] = ()
    manifest: Manifest = Manifest()
