"""Triton kernels of programs, in the form that Triton's compiler takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from wrapper_ir.devices import TRITON, KernelLanguage
from wrapper_ir.toolchain.triton import TritonSource

if TYPE_CHECKING:
    from wrapper_ir.lines.kernels import TritonKernel
    from wrapper_ir.lines.layout import Device


LAUNCH: Final = "triton_kernel_wrapper_mutation"
"""The torch op by which graphs launch Triton kernels."""


def source_of(name: str, kernel: TritonKernel) -> TritonSource:
    """Return a program's kernel in the form that the compiler takes."""
    launch = {"num_warps": kernel.num_warps, "num_stages": kernel.num_stages}
    return TritonSource(
        name,
        dict(kernel.signature),
        kernel.code,
        kernel.entry,
        dict(kernel.constants),
        {**dict(kernel.options), **launch},
    )


def problem_of_tuned(
    language: KernelLanguage, device: Device, *, launchers: bool, in_cpp: bool
) -> str | None:
    """Return why a kernel cannot be launched on a device that supports Triton; None if it can.

    Kernels in other languages have no problem here. For the other arguments see ``launch_problem``.
    """
    if language is not TRITON:
        return None
    place, _ = device.kind.python.triton
    if in_cpp:
        is_known = device.kind.cpp is not None and bool(device.kind.cpp.triton)
        return None if is_known else f"Triton kernels on {device} are launched only from Python"
    if not place:
        return f"no launcher is declared for Triton kernels on {device}: its kind has no triton"
    if ":" in place and not launchers:
        return f"Triton kernels on {device} are launched only by a class of its package"
    return None


def stream_of(language: KernelLanguage, device: Device) -> str:
    """Return what gives emitted Python the current stream for launches; "" for nothing."""
    return device.kind.python.triton[1] if language is TRITON else language.stream
