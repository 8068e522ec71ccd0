"""Triton kernels of programs, as Triton's compiler takes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from wrapper_ir.devices import TRITON
from wrapper_ir.emitters.base import kernel_file
from wrapper_ir.toolchain.triton import TritonSource

if TYPE_CHECKING:
    from wrapper_ir.lines.kernels import TritonKernel


LAUNCH: Final = "triton_kernel_wrapper_mutation"
"""Torch's op by which graphs launch such kernels."""


@dataclass(frozen=True, slots=True)
class GpuUnit:
    """A Triton kernel that the files of a program in C++ launch.

    Attributes:
        symbol: The C symbol of its machine code, which the build makes. It follows from the
            kernel's content, so two kernels share one exactly when they are the same.
        source: The kernel.
    """

    symbol: str
    source: TritonSource

    @property
    def file(self) -> str:
        """Its path in a program's folder."""
        return kernel_file(self.source.name, TRITON)


def source_of(name: str, kernel: TritonKernel) -> TritonSource:
    """Return a program's kernel as the compiler takes it."""
    launch = {"num_warps": kernel.num_warps, "num_stages": kernel.num_stages}
    return TritonSource(
        name,
        dict(kernel.signature),
        kernel.code,
        kernel.entry,
        dict(kernel.constants),
        {**dict(kernel.options), **launch},
    )
