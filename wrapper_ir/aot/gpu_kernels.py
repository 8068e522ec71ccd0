"""Triton kernels as machine code in a library: compiled by Triton, included by the assembler.

Each kernel becomes a list of ``wir::GpuImage``, one for each architecture, under the symbol that
the generated files call it by; the driver is given what fits the GPU when the program is loaded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from wrapper_ir.aot.data import asciz
from wrapper_ir.errors import WrapperIRError
from wrapper_ir.options.gpu import ARCHITECTURES
from wrapper_ir.toolchain.objects import assemble
from wrapper_ir.toolchain.triton import (
    GpuUnit,
    arch_number,
    binary_key,
    compiled_binary,
    current_arch,
)

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from wrapper_ir.aot.work import Work
    from wrapper_ir.toolchain.cache import DiskCache
    from wrapper_ir.toolchain.manifest import Sources
    from wrapper_ir.toolchain.triton import GpuBinary


GPU_FILE: Final = "gpu_kernels.s"

VARIABLE: Final = "_gpu_kernels"
"""The variable of a module's text that holds them."""

_END: Final = '\t.section .note.GNU-stack,"",%progbits\n'


class GpuArchError(WrapperIRError):
    """Triton kernels cannot be compiled: it is not known for which GPU."""

    code = "WIR2275"
    template = "there is no GPU here that Triton kernels could be compiled for"
    default_hint = "name an architecture: gpu_arch='sm_90', or several"


def chosen_archs(kernels: Sequence[GpuUnit], wanted: str | Iterable[str]) -> tuple[int, ...]:
    """Returns the compute capabilities to compile Triton kernels for: 90 for ``sm_90``.

    Args:
        kernels: The kernels of a program; without any there is nothing to choose.
        wanted: Names of architectures; none for that of this machine's GPU.

    Raises:
        OptionValueError: There is no such architecture.
        GpuArchError: None was named, and there is no GPU.
    """
    ARCHITECTURES.check(wanted)
    names = (wanted,) if isinstance(wanted, str) else tuple(wanted)
    found = tuple(sorted({arch_number(name) for name in names}))
    if found or not kernels:
        return found
    here = current_arch()
    if here is None:
        raise GpuArchError
    return (here,)


class NamesArchs(Protocol):
    """Options of a build, which name what Triton kernels are compiled for."""

    @property
    def gpu_arch(self) -> str | tuple[str, ...]:
        """Names of architectures; none for that of this machine's GPU."""


def check_archs(options: NamesArchs) -> None:
    """Check the architectures that options name.

    Raises:
        OptionValueError: There is no such architecture.
    """
    chosen_archs((), options.gpu_arch)


@dataclass(frozen=True, slots=True)
class DeviceCode:
    """The machine code of a program's kernels for devices, which a library holds.

    Attributes:
        kernels: The kernels.
        archs: What each is compiled for.
    """

    kernels: Sequence[GpuUnit]
    archs: tuple[int, ...]

    @classmethod
    def of(cls, artifact: Sources, options: NamesArchs) -> DeviceCode:
        """That of an artifact's kernels, for the architectures that were asked for.

        Raises:
            WrapperIRError: As :func:`chosen_archs` says.
        """
        return cls(artifact.gpu_kernels, chosen_archs(artifact.gpu_kernels, options.gpu_arch))

    @property
    def keys(self) -> list[str]:
        """Keys of the machine code in the cache."""
        return [binary_key(each.source, arch) for each in self.kernels for arch in self.archs]

    @property
    def file(self) -> str | None:
        """The file of assembler that makes an object of it; None without kernels."""
        return GPU_FILE if self.kernels else None

    @property
    def rows(self) -> dict[str, str]:
        """What its files are, for the page about an export; nothing without kernels."""
        about = "the Triton kernels, compiled"
        return {f"{GPU_FILE}`, `*.cubin": about} if self.kernels else {}

    def write(self, folder: Path, cache: DiskCache, *, tuned: bool = False) -> None:
        """Write it, and the file of assembler; see :func:`write_kernels`."""
        if self.kernels:
            write_kernels(folder, self.kernels, self.archs, cache, tuned=tuned)

    def objects(self, work: Work, folder: Path, *, tuned: bool = False) -> tuple[Path, ...]:
        """Write it to a folder, and give the object that holds it, if there are kernels."""
        self.write(folder, work.cache, tuned=tuned)
        return () if self.file is None else (assemble(work.compiler, folder / self.file),)


def write_kernels(
    folder: Path,
    kernels: Sequence[GpuUnit],
    archs: Sequence[int],
    cache: DiskCache,
    *,
    tuned: bool = False,
) -> None:
    """Writes the machine code of kernels, and ``gpu_kernels.s`` that makes an object of it.

    Args:
        folder: Where the files are written.
        kernels: The kernels.
        archs: Compute capabilities; each kernel is there for all of them.
        cache: Where machine code is looked for, and kept.
        tuned: Whether code that a front end had compiled will do; it depends on the process.

    Raises:
        TritonKernelError: A kernel does not compile.
    """
    parts = []
    for kernel in sorted(kernels, key=lambda each: each.symbol):
        binaries = [compiled_binary(kernel.source, arch, cache, tuned=tuned) for arch in archs]
        for binary in binaries:
            (folder / _file(kernel, binary)).write_bytes(binary.code)
        parts.append(_images(kernel, binaries))
    (folder / GPU_FILE).write_text("".join(parts) + _END, "ascii")


def _file(kernel: GpuUnit, binary: GpuBinary) -> str:
    return f"{_label(kernel, binary)}.cubin"


def _label(kernel: GpuUnit, binary: GpuBinary) -> str:
    return f"{kernel.symbol}_sm_{binary.arch}"


def _images(kernel: GpuUnit, binaries: Sequence[GpuBinary]) -> str:
    """One kernel: its machine code, and the list that leads to it."""
    codes = "".join(
        f"{_label(kernel, binary)}:\n"
        f'\t.incbin "{_file(kernel, binary)}"\n'
        f"{_label(kernel, binary)}_name:\n"
        f"{asciz(binary.symbol)}"
        "\t.balign 64\n"
        for binary in binaries
    )
    # The fields of a wir::GpuImage; the last one is none.
    rows = "".join(
        f"\t.long {binary.arch}, {int(binary.cooperative)}\n"
        f"\t.quad {_label(kernel, binary)}, {_label(kernel, binary)}_name\n"
        f"\t.long {binary.threads}, {binary.shared}\n"
        f"\t.quad {binary.scratch}\n"
        for binary in binaries
    )
    return (
        f'\t.section .rodata.{kernel.symbol},"a"\n'
        "\t.balign 64\n"
        f"{codes}"
        f'\t.section .data.rel.ro.{kernel.symbol},"aw"\n'
        f"\t.globl {kernel.symbol}\n"
        f"\t.hidden {kernel.symbol}\n"
        "\t.balign 8\n"
        f"{kernel.symbol}:\n"
        f"{rows}"
        "\t.zero 40\n"
    )
