"""Declarations of the C shim's functions, read from the table of them.

The table, ``abi_table.txt``, is made from PyTorch's headers; the generated file declares the
functions that it uses itself, so it includes none of those headers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

ANY_DEVICE: Final = "aten"
"""The column of functions that serve any device: they call ops through the dispatcher."""


@dataclass(frozen=True, slots=True)
class ShimParam:
    """One parameter of a function of the C shim."""

    type: str
    name: str

    @property
    def is_result(self) -> bool:
        """Tell whether the function puts a result there."""
        return self.name.startswith("ret") and self.name[3:].isdecimal()


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


@cache
def shims() -> Mapping[tuple[str, str], str]:
    """Read the table: the parameters of each function, by its op and its device."""
    text = files("wrapper_ir.emitters.cpp").joinpath("abi_table.txt").read_text("ascii")
    rows = (line.split(" | ") for line in text.splitlines() if not line.startswith("#"))
    return {(op, device): params for op, devices, params in rows for device in devices.split()}


def shim_symbol(op: str, device: str) -> str:
    """Return what the function of an op is called: ``aoti_torch_cpu_view_dtype``."""
    return f"aoti_torch_{device}_{op.removeprefix('aten::').replace('.', '_')}"


@lru_cache(maxsize=512)
def shim_of(op: str, device: str = "cpu") -> Shim | None:
    """Return the C function of an op on a type of devices, ``None`` where there is none."""
    for column in (device, ANY_DEVICE):
        params = shims().get((op, column))
        if params is not None:
            pairs = (param.rsplit(" ", 1) for param in params.split(", "))
            return Shim(shim_symbol(op, column), tuple(ShimParam(*pair) for pair in pairs))
    return None
