"""CUDA C++ as a kernel language: compiled by PyTorch's NVRTC, launched as Triton kernels are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from wrapper_ir import devices
from wrapper_ir.runtime import MachineCode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

LANGUAGE = devices.KernelLanguage(
    "CUDA C++",
    has_grid=True,
    launcher=f"{__name__}:CudaCpp",
    stream="current_stream",
    suffix=".cu",
)


class CudaCpp:
    """Compiles functions in CUDA C++ for one GPU."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._kernels: list[MachineCode] = []

    def add(
        self,
        name: str,
        params: Sequence[str],
        code: str,
        *,
        entry: str,
        group: tuple[int, ...] = (),
        options: Mapping[str, Any] | None = None,
    ) -> None:
        """Compile one kernel."""
        from torch.cuda._utils import _nvrtc_compile

        with torch.cuda.device(self._device):
            compiled, symbol = _nvrtc_compile(f'extern "C" {code}', entry)
        text = compiled if isinstance(compiled, bytes) else compiled.encode()
        threads = group[0] if group else 256
        self._kernels.append(
            MachineCode(name=name, params=params, code=text, symbol=symbol, threads=threads)
        )

    def load(self) -> tuple[Callable[..., None], ...]:
        """Load them."""
        return tuple(kernel.load(self._device) for kernel in self._kernels)
