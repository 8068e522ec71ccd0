"""The options of a build."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from wrapper_ir.aot.build.gpu_kernels import check_archs
from wrapper_ir.options import declared as take
from wrapper_ir.options.gpu import ARCHITECTURES
from wrapper_ir.options.schema import check_options
from wrapper_ir.toolchain.cache import DiskCache


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
