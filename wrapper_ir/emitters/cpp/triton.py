"""Triton kernels: what the generated files declare, and data for the build, which compiles them."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

from wrapper_ir.emitters.cpp import literals
from wrapper_ir.emitters.cpp.exprs import CType
from wrapper_ir.emitters.cpp.literals import device_index, statement
from wrapper_ir.emitters.cpp.state import element_type
from wrapper_ir.emitters.triton import GpuUnit, source_of
from wrapper_ir.lines.args import Access
from wrapper_ir.lines.kernels import BufferParam, KernelCall, KernelDefinition, TritonKernel

if TYPE_CHECKING:
    from wrapper_ir.emitters.cpp.context import Context
    from wrapper_ir.emitters.cpp.state import StateMembers
    from wrapper_ir.lines.kernels import Param


_NUMBERS: Final = {
    "i1": CType.BOOL,
    "u1": CType.BOOL,
    "i32": CType.INT32,
    "i64": CType.INT64,
    "u64": CType.UINT64,
    "fp32": CType.FLOAT,
    "f32": CType.FLOAT,
    "fp64": CType.REAL,
    "f64": CType.REAL,
}
"""Triton's types of numbers, as C++ passes them."""


def parameter_of(type_: str) -> CType | None:
    """The type of a number that a Triton kernel takes, ``None`` for pointers.

    Raises:
        ValueError: C++ programs cannot pass such numbers.
    """
    if type_.startswith("*"):
        return None
    found = _NUMBERS.get(type_.removesuffix(":16"))
    if found is None:
        raise ValueError(f"a number of Triton's type '{type_}' cannot be passed in C++")
    return found


class GpuKernels:
    """The Triton kernels of a program: each is declared where it is defined."""

    def __init__(self, context: Context, state: StateMembers) -> None:
        self._context = context
        self._state = state
        self._units: dict[str, GpuUnit] = {}
        self._names: dict[tuple[str, int], str] = {}

    @property
    def units(self) -> tuple[GpuUnit, ...]:
        """The kernels to compile, each once."""
        return tuple(self._units.values())

    def add(self, definition: KernelDefinition) -> None:
        """Declares a kernel; a ValueError says why it cannot be one."""
        context, source = self._context, definition.source
        assert isinstance(source, TritonKernel)
        if context.accelerator is None:
            raise ValueError("the program has no buffer on a GPU")
        pairs = zip(definition.params, source.signature, strict=True)
        types = [_declared_type(param, type_) for param, (_, type_) in pairs]
        described = source_of(definition.name, source)
        digest = hashlib.sha256(described.identity.encode("utf-8", "backslashreplace")).hexdigest()
        symbol = f"wir_t_{digest[:20]}"
        if symbol not in self._units:
            self._units[symbol] = GpuUnit(symbol, described)
            context.section("externs").line(f'extern "C" const wir::GpuImage {symbol}[];')
        devices = context.launches.get(definition.name, ())
        for gpu in sorted({device_index(device) for device in devices}):
            name = self._name(definition.name, gpu)
            text = f"inline wir::GpuKernel<{', '.join(types)}> {name}"
            text += f"{{{literals.string(definition.name)}, ::{symbol}}};"
            for line in statement(text):
                context.section("kernels").line(line)
            self._state.load_kernel(name, gpu)

    def launched(
        self, line: KernelCall, definition: KernelDefinition
    ) -> tuple[str, tuple[CType | None, ...]] | None:
        """Return the name of what a call launches, and the types of its numbers, None for pointers.

        None for a kernel whose definition was refused.
        """
        assert isinstance(definition.source, TritonKernel)
        try:
            types = tuple(parameter_of(type_) for _, type_ in definition.source.signature)
        except ValueError:
            return None
        return self._name(line.kernel, device_index(line.device)), types

    def _name(self, kernel: str, gpu: int) -> str:
        """The identifier of a kernel on a GPU."""
        context, wanted = self._context, self._context.names["kernel", kernel]
        if context.accelerator is not None and gpu == device_index(context.accelerator):
            return wanted
        key = (kernel, gpu)
        if key not in self._names:
            self._names[key] = context.names.fresh(f"{wanted}_on_{gpu}")
        return self._names[key]


def _declared_type(param: Param, type_: str) -> str:
    """The type of a parameter: the same to the machine as what Triton's text says."""
    number = parameter_of(type_)
    if number is not None:
        return number.spelling
    if not isinstance(param, BufferParam):
        raise ValueError(f"parameter '{param.name}' is a pointer to Triton, and a number here")
    element = element_type(param.dtype)
    return f"const {element}*" if param.access is Access.READ else f"{element}*"
