"""Kernels, library ops and functions of the C shim that the generated files declare."""

from __future__ import annotations

import dataclasses
import hashlib
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Final

from wrapper_ir.analysis.ops import is_method
from wrapper_ir.emitters.cpp import literals
from wrapper_ir.emitters.cpp.context import Context
from wrapper_ir.emitters.cpp.device_kernels import LaunchedKernels
from wrapper_ir.emitters.cpp.state import StateMembers, parameter_spelling
from wrapper_ir.emitters.kernel_types import cpp_source
from wrapper_ir.toolchain.manifest import OWN_OPS, Part
from wrapper_ir.toolchain.source import CppSource, CppUnit

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wrapper_ir.lines.kernels import KernelDefinition


# Declarations of the C shim's functions, read from ``abi_table.txt``.
#
# The table is made from PyTorch's headers. Generated files declare the functions that they use, so
# they include none of those headers.

ANY_DEVICE: Final = "aten"
"""The column of functions that serve any device: they call ops through the dispatcher."""


@dataclass(frozen=True, slots=True)
class ShimParam:
    """One parameter of a function of the C shim."""

    type: str
    name: str

    @property
    def is_result(self) -> bool:
        """True if the function stores a result there."""
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
    """Read the table: the parameters of each function, by op and device."""
    text = files("wrapper_ir.emitters.cpp").joinpath("abi_table.txt").read_text("ascii")
    rows = (line.split(" | ") for line in text.splitlines() if not line.startswith("#"))
    return {(op, device): params for op, devices, params in rows for device in devices.split()}


def shim_symbol(op: str, device: str) -> str:
    """Return the name of an op's function: ``aoti_torch_cpu_view_dtype``."""
    return f"aoti_torch_{device}_{op.removeprefix('aten::').replace('.', '_')}"


@lru_cache(maxsize=512)
def shim_of(op: str, device: str = "cpu") -> Shim | None:
    """Return the C function of an op on a type of device; None if there is none."""
    for column in (device, ANY_DEVICE):
        params = shims().get((op, column))
        if params is not None:
            pairs = (param.rsplit(" ", 1) for param in params.split(", "))
            return Shim(shim_symbol(op, column), tuple(ShimParam(*pair) for pair in pairs))
    return None


# Kernels and library ops: declarations in the generated files, and units to compile beside them.


class Callees:
    """The functions that a program calls, each declared when it is first called."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._units: dict[str, CppUnit] = {}

        self._ops: set[str] = set()
        self._shims: set[str] = set()

    @property
    def units(self) -> tuple[CppUnit, ...]:
        """The kernels to compile, each once."""
        return tuple(self._units.values())

    def kernel(self, definition: KernelDefinition) -> None:
        """Declare the function of a kernel.

        Raises:
            ValueError: It has none; the message says why.
        """
        name = self._context.names["kernel", definition.name]
        described = dataclasses.replace(cpp_source(definition), name=name)
        symbol = _symbol_of(described)
        declared = ", ".join(map(parameter_spelling, definition.params))
        writer = self._context.section("kernels")
        if symbol not in self._units:
            self._units[symbol] = CppUnit(symbol, described)
            externs = self._context.section("externs")
            self._context.put(externs, f'extern "C" void {symbol}({declared});')
        writer.line(f"inline constexpr auto* {name} = &::{symbol};")

    def shim(self, shim: Shim) -> str:
        """Return a function of the C shim."""
        if shim.symbol not in self._shims:
            self._shims.add(shim.symbol)
            self._context.put(self._context.section("externs"), f'extern "C" {shim.declaration}')
        return shim.symbol

    def op(self, op: str) -> str:
        """Return an op that is called by its schema."""
        name = self._context.names["op", op]
        if op not in self._ops:
            self._ops.add(op)
            self._context.parts.add(Part.OPS)
            if op.startswith(OWN_OPS):
                self._context.parts.add(Part.OWN_OPS)
            base, _, overload = op.partition(".")
            args = f"{literals.string(base)}, {literals.string(overload)}"
            text = f"inline wir::Op {name}{{{args}}};"
            if is_method(self._context.program, op):
                text = f"inline wir::Method {name}{{{literals.string(overload)}}};"
            elif not op.startswith(("aten::", OWN_OPS)):
                self._context.foreign_ops.append((base, overload))
            self._context.section("ops").line(text)
        return name


def _symbol_of(source: CppSource) -> str:
    """Return a C symbol made from all that a kernel's behaviour depends on (not its name)."""
    parts = (source.code, source.entry, source.isa, *source.extra_flags, *source.arg_types)
    digest = hashlib.sha256("\0".join(parts).encode("utf-8", "backslashreplace")).hexdigest()
    return f"wir_k_{digest[:20]}"


class CppRun(Context):
    """One run of the emitter, and what its files declare when a line first needs it."""

    @cached_property
    def state(self) -> StateMembers:
        """The members that are kept from call to call."""
        return StateMembers(self)

    @cached_property
    def callees(self) -> Callees:
        """The functions that the program calls."""
        return Callees(self)

    @cached_property
    def launched(self) -> LaunchedKernels:
        """The kernels that are launched over a grid."""
        return LaunchedKernels(self, self.state)
