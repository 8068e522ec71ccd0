"""How the C shim's functions are declared, read from the table of them.

The table is data made from PyTorch's headers; the generated file declares the functions that it
uses itself, so it includes none of those headers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from wrapper_ir.emitters.cpp.abi_table import SHIMS
from wrapper_ir.emitters.cpp.abi_table_cuda import CUDA_SHIMS

__all__ = ["Shim", "ShimParam", "shim_of"]

_ANY_DEVICE = "aoti_torch_aten_"
"""How functions begin that call ops through the dispatcher."""

_RESULT = re.compile(r"ret\d+")


@dataclass(frozen=True, slots=True)
class ShimParam:
    """One parameter of a function of the C shim."""

    type: str
    name: str

    @property
    def is_result(self) -> bool:
        """Whether the function puts a result there."""
        return _RESULT.fullmatch(self.name) is not None


@dataclass(frozen=True, slots=True)
class Shim:
    """A function of the C shim that is an op."""

    symbol: str
    params: tuple[ShimParam, ...]

    @property
    def declaration(self) -> str:
        """The function's declaration in C."""
        types = ", ".join(f"{param.type} {param.name}" for param in self.params)
        return f"AOTITorchError {self.symbol}({types});"


@lru_cache(maxsize=512)
def shim_of(op: str, device: str = "cpu") -> Shim | None:
    """The C function of an op on a type of devices, ``None`` where there is none."""
    found = SHIMS.get(op)
    if device == "cuda" and (found is None or not found[0].startswith(_ANY_DEVICE)):
        found = CUDA_SHIMS.get(op)
    if found is None:
        return None
    symbol, params = found
    pairs = (param.rsplit(" ", 1) for param in params.split(", "))
    return Shim(symbol, tuple(ShimParam(type_, name) for type_, name in pairs))
