"""Calls that declare what a program has: symbols, inputs, constants."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from wrapper_ir.build.base import Part, located
from wrapper_ir.build.errors import ArgumentError
from wrapper_ir.build.values import Buffer, LayoutLike, Size, device_of, dtype_of
from wrapper_ir.lines import (
    BufferInput,
    Constant,
    ConstantKind,
    Device,
    DType,
    Layout,
    ScalarInput,
    SymbolInfo,
    SymbolKind,
)

if TYPE_CHECKING:
    import sympy


class Declarations(Part):
    """Symbols, inputs and constants."""

    @located
    def symbol(
        self,
        name: str,
        *,
        min: int | None = None,
        max: int | None = None,
        hint: int | None = None,
        kind: SymbolKind | Literal["int", "float", "bool", "none"] = SymbolKind.INT,
        unbacked: bool = False,
    ) -> sympy.Symbol:
        """Declares a symbol, to be used in sizes and arguments.

        One that is a size or stride of an input is bound to it when the program is built.
        """
        return self._draft.declare(name, SymbolInfo(SymbolKind(kind), min, max, hint, unbacked))

    @located
    def input(
        self,
        name: str,
        dtype: DType | str | LayoutLike,
        size: Size | None = None,
        *,
        stride: Size | None = None,
        device: Device | str | None = None,
        donated: bool = False,
    ) -> Buffer:
        """Declares a buffer that the caller passes."""
        buffer = self._draft.define(name, self._layout(dtype, size, stride, device))
        self._draft.take_input(BufferInput(buffer.name, donated))
        return buffer

    @located
    def scalar_input(self, symbol: sympy.Symbol) -> sympy.Symbol:
        """Declares that the caller passes the value of a symbol, at this place among the inputs."""
        self._draft.take_input(ScalarInput(symbol.name))
        self._draft.bound.add(symbol.name)
        return symbol

    @located
    def constant(
        self,
        name: str,
        value: Any = None,  # noqa: ANN401 - a tensor; torch is not imported here
        *,
        layout: LayoutLike | None = None,
        qualified_name: str | None = None,
        kind: ConstantKind | Literal["parameter", "buffer", "tensor"] = ConstantKind.PARAMETER,
        mutable: bool = False,
    ) -> Buffer:
        """Declares a tensor that belongs to the program; by default its layout is the value's."""
        if layout is None and value is None:
            raise ArgumentError(callee="constant", reason="it has neither a value nor a layout")
        found = _layout_of_tensor(value) if layout is None else self._layout(layout)
        buffer = self._draft.define(name, found)
        tied = self._draft.tied(value)
        qualified = name if qualified_name is None else qualified_name
        self._draft.constants[name] = Constant(qualified, ConstantKind(kind), mutable, tied)
        if value is not None:
            self._draft.values[name] = value
        return buffer


def _layout_of_tensor(value: Any) -> Layout:  # noqa: ANN401 - a tensor; torch is not imported
    device = device_of(str(value.device))
    dtype = dtype_of(str(value.dtype).removeprefix("torch."))
    return Layout(dtype, device, tuple(value.shape), tuple(value.stride()))
