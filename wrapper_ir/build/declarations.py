"""Calls that declare what a program has: symbols, inputs, constants."""

from __future__ import annotations

from typing import Any, Literal

import sympy

from wrapper_ir.build.base import Part, located
from wrapper_ir.build.errors import ArgumentError
from wrapper_ir.build.values import (
    Buffer,
    LayoutLike,
    Object,
    Size,
    choice,
    device_of,
    dtype_of,
    here,
    new_buffer,
    new_object,
    new_symbol,
)
from wrapper_ir.lines import (
    BufferInput,
    Constant,
    ConstantKind,
    Device,
    DType,
    Input,
    Layout,
    ObjectConstant,
    ObjectInput,
    ScalarInput,
    SymbolInfo,
    SymbolKind,
)


class Declarations(Part):
    """Symbols, inputs and constants."""

    def __init__(self, device: Device | str) -> None:
        super().__init__(device)
        #: Where the first call for each input stands.
        self._input_origins: dict[Input, int] = {}

    def _take(self, item: Input) -> None:
        self._draft.inputs.append(item)
        self._input_origins.setdefault(item, here(self._draft))

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

        Args:
            name: An identifier.
            min: Its least value.
            max: Its largest value. Ranges of inputs are checked when the program runs.
            hint: A typical value: what plans of memory are made for.
            kind: What its values are.
            unbacked: Whether it is known only as the program runs, not from the inputs.

        Raises:
            ArgumentError: There is no such kind, or a bound is no integer.
            NameTakenError: There is a symbol of that name.
        """
        for bound in (min, max, hint):
            given: object = bound
            if not (given is None or isinstance(given, int)):
                reason = f"{given!r} is no integer, as bounds and hints are"
                raise ArgumentError(callee=f"symbol '{name}'", reason=reason)
        found = choice(SymbolKind, kind, f"the kind of symbol '{name}'")
        return new_symbol(self._draft, name, SymbolInfo(found, min, max, hint, unbacked))

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
        """Declares a buffer that the caller passes; inputs are in the order of these calls.

        Args:
            name: Its name.
            dtype: Type of an element, a layout, or a buffer that it is like.
            size: Sizes, in elements: numbers, symbols and expressions of them.
            stride: Strides, in elements; row-major by default.
            device: Where it is; by default the builder's device.
            donated: Whether the program may overwrite it and use its storage for others.

        Raises:
            LayoutError: The arguments say no layout.
            NameTakenError: There is a buffer of that name.
        """
        buffer = new_buffer(self._draft, name, self._layout(dtype, size, stride, device))
        self._take(BufferInput(buffer.name, donated))
        return buffer

    @located
    def scalar_input(self, symbol: sympy.Symbol) -> sympy.Symbol:
        """Declares that the caller passes the value of a symbol, at this place among the inputs.

        Args:
            symbol: What :meth:`symbol` gave.

        Raises:
            ArgumentError: It is no symbol.
        """
        given: object = symbol
        if not isinstance(given, sympy.Symbol):
            reason = f"{given!r} is no symbol; declare it: b.symbol(name)"
            raise ArgumentError(callee="scalar_input", reason=reason)
        self._take(ScalarInput(symbol.name))
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
        """Declares a tensor that belongs to the program.

        Args:
            name: Its name.
            value: The tensor, kept as it is; without one it is given later, in ``Program.data``.
            layout: Its layout; by default the value's.
            qualified_name: Its name in the model, such as ``encoder.0.weight``.
            kind: What it is in the model.
            mutable: Whether the program may write to it.

        Raises:
            ArgumentError: There is neither a tensor nor a layout, or no such kind.
        """
        if layout is None and value is None:
            raise ArgumentError(callee="constant", reason="it has neither a value nor a layout")
        found_kind = choice(ConstantKind, kind, f"the kind of constant '{name}'")
        found = _layout_of_tensor(value) if layout is None else self._layout(layout)
        buffer = new_buffer(self._draft, name, found)
        tied = next(iter(self._draft.names_of(value)), None)
        qualified = name if qualified_name is None else qualified_name
        self._draft.constants[name] = Constant(qualified, found_kind, mutable, tied)
        if value is not None:
            self._draft.hold(name, value)
        return buffer

    @located
    def object_input(self, name: str, class_name: str) -> Object:
        """Declares an object of a custom class that the caller passes, at this place.

        Args:
            name: Its name.
            class_name: The class as torch registers it: ``namespace::Class``.

        Raises:
            NameTakenError: There is a buffer or an object of that name.
            IllegalNameError: That is no name of a class.
        """
        made = new_object(self._draft, name, class_name)
        self._take(ObjectInput(name, class_name))
        return made

    @located
    def object(
        self,
        name: str,
        class_name: str,
        value: Any = None,  # noqa: ANN401 - an object; torch is not imported here
        *,
        qualified_name: str | None = None,
    ) -> Object:
        """Declares an object of a custom class that belongs to the program.

        Args:
            name: Its name.
            class_name: As for :meth:`object_input`.
            value: The object; without one it is given later, in ``Program.data``.
            qualified_name: Its name in the model.

        Raises:
            NameTakenError: There is a buffer or an object of that name.
            IllegalNameError: That is no name of a class.
        """
        made = new_object(self._draft, name, class_name)
        qualified = name if qualified_name is None else qualified_name
        self._draft.objects[name] = ObjectConstant(class_name, qualified)
        if value is not None:
            self._draft.hold(name, value)
        return made


def _layout_of_tensor(value: Any) -> Layout:  # noqa: ANN401 - a tensor; torch is not imported
    if not hasattr(value, "stride"):
        reason = f"its value is of type {type(value).__name__}, where a tensor is wanted"
        raise ArgumentError(callee="constant", reason=reason)
    device = device_of(str(value.device))
    dtype = dtype_of(str(value.dtype).removeprefix("torch."))
    return Layout(dtype, device, tuple(value.shape), tuple(value.stride()))
