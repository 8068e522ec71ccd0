"""An emitted program: source files, kernels to compile beside them, and what they need besides.

Building, loading and packaging are the business of ``wrapper_ir.aot``, above the emitters; an
artifact looks it up when it is asked to. Whoever only wants the text pays for nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

from wrapper_ir.devices import CPP, CPU, CppSide, DeviceKind, kind_of
from wrapper_ir.emitters.base import WRAPPER, SourceFiles, kernel_file
from wrapper_ir.emitters.cuda_graphs.capture import CaptureFacts
from wrapper_ir.emitters.triton import GpuUnit
from wrapper_ir.emitters.writer import SourceMap
from wrapper_ir.lines.program import ConstantKind, Program
from wrapper_ir.lines.trace import ProbeLevel
from wrapper_ir.toolchain.parts import Part
from wrapper_ir.toolchain.source import CppSource

if TYPE_CHECKING:
    from pathlib import Path


MAIN_FILE = "program.cpp"
"""The file that holds the tables and the entry; every artifact has it."""

BoxedCall = Callable[[list[Any]], tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class KernelUnit:
    """A C++ kernel that the generated files call.

    Attributes:
        symbol: The C symbol that they call it by. It is made from the kernel's content, so two
            kernels share one exactly when they are the same. The text defines ``source.entry``;
            whoever compiles it has to rename that.
        source: The kernel.
    """

    symbol: str
    source: CppSource

    @property
    def file(self) -> str:
        """Its path in a program's folder."""
        return kernel_file(self.source.name, CPP)


@dataclass(frozen=True, slots=True)
class Manifest:
    """The parts of the runtime that the generated files of a program need.

    Attributes:
        parts: The parts of the runtime that they use.
        levels: The levels of their probes, each once, in the order of the program.
        type: Torch's type of the device that the program runs on: the CPU if it needs no other.
    """

    parts: frozenset[Part] = frozenset()
    levels: tuple[ProbeLevel, ...] = ()
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
    kernels: tuple[KernelUnit, ...]
    gpu_kernels: tuple[GpuUnit, ...] = ()
    manifest: Manifest = Manifest()


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class CppArtifact(Sources):
    """An emitted program.

    Attributes:
        source: The text of the whole program, for readers; the files of ``sources`` in a row.
        source_map: Which line of ``source`` came from which line of the program.
        program: What it was made from. Values of constants are in ``program.data``.
        maps: Likewise, for each file of ``sources``.
        options: Those of the emitter that are not at their defaults.
        graphs: How its calls are captured as CUDA graphs, once it is loaded; ``None`` if not.
    """

    source: str
    source_map: SourceMap
    program: Program
    maps: Mapping[str, SourceMap] = field(default_factory=dict)
    options: Mapping[str, object] = field(default_factory=dict)
    graphs: CaptureFacts | None = None

    @property
    def module_source(self) -> str:
        """A module of Python with a boxed ``call``, for caches; it builds what it needs."""
        texts = import_module("wrapper_ir.aot.module_text")
        text: str = texts.module_text(self)
        return text

    def files(self) -> SourceFiles:
        """Return the generated files, each kernel in one of its own, and a module that runs them.

        There is no such module where constants are objects, or packed: only libraries make those.
        """
        module = import_module("wrapper_ir.aot.module_text")
        texts: dict[str, str] = {**self.sources, **module.kernel_files(self)}
        kinds = {each.kind for each in self.program.constants.values()}
        if not self.program.objects and ConstantKind.PACKED not in kinds:
            texts = {WRAPPER: module.module_text(self, apart=True), **texts}
        return SourceFiles(texts, self.maps, "cpp", self.options)

    def load(self, num_runners: int = 4, **options: object) -> Callable[..., tuple[Any, ...]]:
        """Build the program and give ``callable(*inputs) -> tuple of results``.

        Any number of threads may call it at once.

        Args:
            num_runners: How many calls can run at a time without setting up memory first.
            **options: How to build: fields of :class:`wrapper_ir.aot.build.BuildOptions`.
        """
        loaded = import_module("wrapper_ir.aot.load")
        function: Callable[..., tuple[Any, ...]]
        function = loaded.load(self, num_runners=num_runners, **options)
        return function

    def load_boxed(self, num_runners: int = 4, **options: object) -> BoxedCall:
        """Like :meth:`load`, called with one list, which it empties."""
        loaded = import_module("wrapper_ir.aot.load")
        function: BoxedCall = loaded.load_boxed(self, num_runners=num_runners, **options)
        return function

    def export(self, path: str | Path, **options: object) -> Path:
        """Write the program as a ``.pt2`` package, a library or a folder that builds.

        Args:
            path: Where to; its ending says which.
            **options: See :func:`wrapper_ir.aot.export.export`.

        Returns:
            The path that was written.
        """
        package = import_module("wrapper_ir.aot.export")
        written: Path = package.export(self, path, **options)
        return written
