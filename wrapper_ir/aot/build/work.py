"""What a library is built with: options, compiler, cache, threads, and a progress counter."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from wrapper_ir.aot.build.gpu_kernels import check_archs
from wrapper_ir.options import declared as take
from wrapper_ir.options.gpu import ARCHITECTURES
from wrapper_ir.options.schema import check_options
from wrapper_ir.toolchain.build import default_jobs
from wrapper_ir.toolchain.cache import DiskCache, default_cache
from wrapper_ir.toolchain.compiler import find_compiler, generated_flags, stand_in
from wrapper_ir.toolchain.manifest import Manifest, needed_parts
from wrapper_ir.toolchain.native import GENERATED, precompiled, runtime_objects
from wrapper_ir.toolchain.objects import Tools, Translation
from wrapper_ir.toolchain.processes import Pool, pool


@dataclass(frozen=True, slots=True)
class Work:
    """The tools and settings that build a library."""

    tools: Tools
    jobs: int
    flags: tuple[str, ...]  # further flags, in addition to those of each kind of file

    @classmethod
    def of(cls, cache: DiskCache | None, jobs: int | None, flags: tuple[str, ...]) -> Work:
        """Return tools with defaults for a cache and a number of jobs that are not given."""
        cache = cache or default_cache()
        tools = Tools(find_compiler(cache), cache, precompiled(cache))
        return cls(tools, jobs or default_jobs(), flags)

    def plain(self, name: str, text: str) -> Translation:
        """Return a file that is neither a kernel nor generated from a program's lines."""
        flags = (*generated_flags(self.tools.compiler), *self.flags)
        return Translation(name, text, flags, f"generated file {name!r}")

    def generated(self, sources: Mapping[str, str]) -> list[Translation]:
        """Return the generated C++ files, the longest first, each with all generated headers."""
        headers = tuple(sorted(item for item in sources.items() if not item[0].endswith(".cpp")))
        files = sorted(item for item in sources.items() if item[0].endswith(".cpp"))
        units = [replace(self.plain(*file), headers=headers, header=GENERATED) for file in files]
        return sorted(units, key=lambda unit: -len(unit.text))

    def torch(self, manifest: Manifest) -> tuple[Path, ...]:
        """Return stand-ins for the libraries of PyTorch and of the device's vendor."""
        names = (side.library for side in manifest.sides)
        cache, compiler = self.tools.cache, self.tools.compiler
        return tuple(stand_in(cache, compiler, name) for name in names if name)

    def runtime(self, manifest: Manifest, *, alone: bool) -> tuple[Path, ...]:
        """Return the objects of the C++ runtime; ``alone`` if it will run without Python."""
        parts = needed_parts(manifest.parts, alone=alone)
        cache, compiler = self.tools.cache, self.tools.compiler
        return runtime_objects(cache, compiler, parts, extra_flags=self.flags, jobs=self.jobs)

    @contextlib.contextmanager
    def running(self, folder: Path) -> Iterator[tuple[Pool, Path]]:
        """Yield threads that run compilers, and a temporary directory in ``folder``."""
        with (
            tempfile.TemporaryDirectory(prefix=".build-", dir=folder) as scratch,
            pool(self.jobs) as threads,
        ):
            yield threads, Path(scratch)


@dataclass(frozen=True, slots=True)
class BuildOptions:
    """The options of building a library.

    Attributes:
        isa: ``native``: each kernel for the instruction set that it was captured for, on this
            processor. Or ``x86-64-v2`` to ``x86-64-v4``: for any processor of that level.
        debug_info: Whether to compile with debug information, kept in a separate file.
        constants: ``embedded`` in the library, ``beside`` it in a file that is mapped into memory,
            ``none`` for a library without them, or ``auto``: embedded up to 512 MiB, and beside in
            a package.
        jobs: The number of compilers to run at once; by default one per processor.
        progress: Called with the number of steps done and the number of all steps.
        cache: The cache of objects; by default the default cache.
        extra_flags: Flags for the compiler and the linker, such as ``("-fsanitize=address",)``.
        kernel_flags: Further compiler flags for kernels.
        gpu_arch: The architectures to compile Triton kernels for: ``"sm_90"``, or several, of which
            the one that fits is used when the library is loaded; by default this machine's GPU.
    """

    isa: str = take.ISA.field()
    debug_info: bool = take.DEBUG_INFO.field()
    constants: str = take.CONSTANTS.field()
    jobs: int | None = take.JOBS.field()
    progress: Callable[[int, int], None] | None = None
    cache: DiskCache | None = None
    extra_flags: tuple[str, ...] = ()
    kernel_flags: tuple[str, ...] = ()
    gpu_arch: str | tuple[str, ...] = ARCHITECTURES.field()

    def __post_init__(self) -> None:
        """Raise OptionValueError unless every value is legal."""
        check_options(self)
        check_archs(self)
