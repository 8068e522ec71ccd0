"""Triton kernels as machine code in a library: compiled by Triton, included by the assembler.

Each kernel becomes a list of ``wir::GpuImage``, one per architecture, under the symbol that the
generated files use. The driver gets the one that fits the GPU when the program is loaded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from wrapper_ir.aot.build.constants import NO_STACK, asciz
from wrapper_ir.errors import WrapperIRError
from wrapper_ir.options.gpu import ARCHITECTURES
from wrapper_ir.toolchain import triton
from wrapper_ir.toolchain.objects import Tools, assemble

if TYPE_CHECKING:
    from pathlib import Path

    from wrapper_ir.toolchain.cache import DiskCache
    from wrapper_ir.toolchain.manifest import Sources
    from wrapper_ir.toolchain.triton import GpuBinary


GPU_FILE: Final = "gpu_kernels.s"

VARIABLE: Final = "_gpu_kernels"
"""The variable of a module's text that holds the Triton kernels."""


class GpuArchError(WrapperIRError):
    """Triton kernels cannot be compiled, because no GPU architecture is known."""

    code = "WIR2275"
    template = "there is no GPU here that Triton kernels could be compiled for"
    default_hint = "name an architecture: gpu_arch='sm_90', or several"


def chosen_archs(kernels: Sequence[triton.GpuUnit], names: str | Iterable[str]) -> tuple[int, ...]:
    """Return the compute capabilities to compile Triton kernels for: 90 for ``sm_90``.

    Without names it is that of this machine's GPU; without kernels there is nothing to choose.

    Raises:
        OptionValueError: There is no such architecture.
        GpuArchError: None was named, and there is no GPU.
    """
    ARCHITECTURES.check(names)
    named = (names,) if isinstance(names, str) else tuple(names)
    archs = tuple(sorted({triton.arch_number(name) for name in named}))
    if archs or not kernels:
        return archs
    current = triton.current_arch()
    if current is None:
        raise GpuArchError
    return (current,)


def check_archs(options: Any) -> None:  # noqa: ANN401 - BuildOptions
    """Raise OptionValueError if an architecture does not exist."""
    chosen_archs((), options.gpu_arch)


@dataclass(frozen=True, slots=True)
class DeviceCode:
    """The machine code of a program's device kernels in a library."""

    kernels: Sequence[triton.GpuUnit]
    archs: tuple[int, ...]  #: the compute capabilities that each is compiled for

    @classmethod
    def of(cls, artifact: Sources, options: Any) -> DeviceCode:  # noqa: ANN401 - BuildOptions
        """Return the code of an artifact's kernels for the architectures that options name."""
        return cls(artifact.gpu_kernels, chosen_archs(artifact.gpu_kernels, options.gpu_arch))

    @property
    def keys(self) -> list[str]:
        """The keys of the machine code in the cache."""
        return [
            triton.binary_key(each.source, arch) for each in self.kernels for arch in self.archs
        ]

    @property
    def file(self) -> str | None:
        """The assembly file that turns the code into an object; None without kernels."""
        return GPU_FILE if self.kernels else None

    @property
    def rows(self) -> dict[str, str]:
        """Descriptions of its files for the page about an export; empty without kernels."""
        about = "the Triton kernels, compiled"
        return {f"{GPU_FILE}`, `*.cubin": about} if self.kernels else {}

    def write(self, folder: Path, cache: DiskCache, *, tuned: bool = False) -> None:
        """Write the machine code, and the assembly file that includes it, if there are kernels.

        With ``tuned``, code that a front end had compiled may be used; it depends on that process.

        Raises:
            TritonKernelError: A kernel does not compile.
        """
        if not self.kernels:
            return
        parts = []
        for kernel in sorted(self.kernels, key=lambda each: each.symbol):
            binaries = {
                f"{kernel.symbol}_sm_{arch}": triton.compiled_binary(
                    kernel.source, arch, cache, tuned=tuned
                )
                for arch in self.archs
            }
            for label, binary in binaries.items():
                (folder / f"{label}.cubin").write_bytes(binary.code)
            parts.append(_images(kernel, binaries))
        (folder / GPU_FILE).write_text("".join(parts) + NO_STACK, "ascii")

    def objects(self, tools: Tools, folder: Path, *, tuned: bool = False) -> tuple[Path, ...]:
        """Write the code to a folder and return its object; empty without kernels."""
        self.write(folder, tools.cache, tuned=tuned)
        return () if self.file is None else (assemble(tools.compiler, folder / self.file),)


def _images(kernel: triton.GpuUnit, binaries: Mapping[str, GpuBinary]) -> str:
    """Return the assembly of a kernel: its machine code by label, and the list that leads to it."""
    codes = "".join(
        f"{label}:\n"
        f'\t.incbin "{label}.cubin"\n'
        f"{label}_name:\n"
        f"{asciz(binary.symbol)}"
        "\t.balign 64\n"
        for label, binary in binaries.items()
    )
    # The fields of a wir::GpuImage; a zeroed image ends the list.
    rows = "".join(
        f"\t.long {binary.arch}, {int(binary.cooperative)}\n"
        f"\t.quad {label}, {label}_name\n"
        f"\t.long {binary.threads}, {binary.shared}\n"
        f"\t.quad {binary.scratch}\n"
        for label, binary in binaries.items()
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
