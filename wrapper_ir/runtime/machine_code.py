"""Kernels in machine code that another compiler made, launched on a GPU as Triton kernels are.

For launchers of kernel languages (:class:`wrapper_ir.devices.Launcher`) whose compilers hand out
machine code: a launch costs the host what that of a Triton kernel costs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wrapper_ir.errors import OptionValueError
from wrapper_ir.runtime.triton import LETTERS, load_binary
from wrapper_ir.toolchain.triton import GpuBinary

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineCode:
    """A compiled kernel and how it is launched.

    Attributes:
        name: Its name, for messages.
        params: The types of its parameters, as ``Launcher.add`` takes them. The function takes a
            pointer for each tensor and a number for each number, and nothing else.
        code: What the CUDA driver loads: a cubin or fatbin, or PTX.
        symbol: The name of the function in the code.
        threads: Threads per block.
        shared: Bytes of dynamic shared memory per block.
        cooperative: Whether its blocks wait for each other, so that all must run at once.
    """

    name: str
    params: Sequence[str]
    code: bytes
    symbol: str
    threads: int
    shared: int = 0
    cooperative: bool = False

    def load(self, device: torch.device) -> Callable[..., None]:
        """Load the code on a GPU.

        Returns:
            A function of the grid, a tuple of one to three sizes, a raw stream (set
            ``KernelLanguage.stream`` to ``current_stream``), and an argument for each parameter.

        Raises:
            OptionValueError: A parameter has a type that kernels cannot take.
            RuntimeError: The driver rejects the code.
        """
        types = "".join(map(_letter, self.params))
        # The driver knows what the code is for.
        binary = GpuBinary(
            0, self.code, self.symbol, self.threads, self.shared, 0, self.cooperative
        )
        return load_binary(self.name, types, binary, device, switches=True)


def _letter(type_: str) -> str:
    if " " in type_:  # "in f32"
        return "O"
    plain = {"bool": "i1"}.get(type_, type_)
    if plain not in LETTERS:
        expected = "an access and an element type, as in 'in f32', or the type of a number"
        raise OptionValueError(option="params", value=type_, expected=expected)
    return LETTERS[plain]
