"""Calls that declare symbols, inputs, constants, objects and kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import sympy

import wrapper_ir.lines as ir
from wrapper_ir.build.values import (
    ArgumentError,
    Buffer,
    Kernel,
    LayoutLike,
    Object,
    Part,
    Size,
    choice,
    device_of,
    dtype_of,
    located,
)

if TYPE_CHECKING:

    from wrapper_ir.devices import KernelLanguage

BufferParams: TypeAlias = Sequence[tuple[str, ir.DType | str]]
"""Names and element types."""

ScalarParams: TypeAlias = Sequence[str | tuple[str, ir.ScalarType | str]]
"""Names, or names and machine types. The default type is a 64-bit integer."""


class Declarations(Part):
    """Symbols, inputs, constants, objects and kernels."""

    def __init__(self, device: ir.Device | str) -> None:
        super().__init__(device)
        #: The origin of the first call that declares each input.
        self._input_origins: dict[ir.Input, int] = {}

    def _take(self, item: ir.Input) -> None:
        self._draft.inputs.append(item)
        self._input_origins.setdefault(item, self._here())

    @located
    def symbol(
        self,
        name: str,
        *,
        min: int | None = None,
        max: int | None = None,
        hint: int | None = None,
        kind: ir.SymbolKind | Literal["int", "float", "bool", "none"] = ir.SymbolKind.INT,
        unbacked: bool = False,
    ) -> sympy.Symbol:
        """Declare a symbol for use in sizes and arguments.

        A symbol that is a size or stride of an input is bound to it when the program is built.

        Args:
            name: An identifier.
            min: Its inclusive lower bound.
            max: Its inclusive upper bound. Bounds of input symbols are checked at run time.
            hint: A typical value, for which memory is planned.
            kind: The kind of its values.
            unbacked: The value depends on data; the inputs' shapes do not give it.

        Raises:
            ArgumentError: There is no such kind, or a bound is not an integer.
            NameTakenError: A symbol already has the name.
        """
        for bound in (min, max, hint):
            given: object = bound
            if not (given is None or isinstance(given, int)):
                reason = f"bounds and hints are integers, and {given!r} is not an integer"
                raise ArgumentError(callee=f"symbol '{name}'", reason=reason)
        symbol_kind = choice(ir.SymbolKind, kind, f"the kind of symbol '{name}'")
        return self._new_symbol(name, ir.SymbolInfo(symbol_kind, min, max, hint, unbacked))

    @located
    def input(  # noqa: PLR0913 - all but two are named
        self,
        name: str,
        dtype: ir.DType | str | LayoutLike,
        size: Size | None = None,
        *,
        stride: Size | None = None,
        device: ir.Device | str | None = None,
        donated: bool = False,
        static: bool = False,
        realigned: int = 0,
    ) -> Buffer:
        """Declare an input buffer. Inputs are in the order of these calls.

        Args:
            name: Its name.
            dtype: Element type, a layout, or a buffer to imitate.
            size: Sizes, in elements: numbers, symbols, or expressions over symbols.
            stride: Strides, in elements. Row-major by default.
            device: The device. By default the builder's.
            donated: Let the program overwrite the buffer and reuse its storage.
            static: Whether its memory stays at one address from call to call.
            realigned: Work on a copy if its address is no multiple of so many bytes; 0: never.

        Raises:
            LayoutError: The arguments do not describe a layout.
            NameTakenError: A buffer already has the name.
        """
        buffer = self._new_buffer(name, self._layout(dtype, size, stride, device))
        self._take(ir.BufferInput(buffer.name, donated, static, realigned))
        return buffer

    @located
    def scalar_input(self, symbol: sympy.Symbol) -> sympy.Symbol:
        """Declare that the next input is the value of a symbol, which :meth:`symbol` returned.

        Raises:
            ArgumentError: It is not a symbol.
        """
        given: object = symbol
        if not isinstance(given, sympy.Symbol):
            reason = f"{given!r} is not a symbol; declare one: b.symbol(name)"
            raise ArgumentError(callee="scalar_input", reason=reason)
        self._take(ir.ScalarInput(symbol.name))
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
        kind: (
            ir.ConstantKind | Literal["parameter", "buffer", "tensor"]
        ) = ir.ConstantKind.PARAMETER,
        mutable: bool = False,
    ) -> Buffer:
        """Declare a tensor that the program owns.

        Args:
            name: Its name.
            value: The tensor, which is not copied. Without it, ``Program.data`` must be given
                later.
            layout: Its layout. By default the value's.
            qualified_name: Its name in the model, such as ``encoder.0.weight``.
            kind: Its kind in the model.
            mutable: Let the program write to it.

        Raises:
            ArgumentError: There is neither a value nor a layout, or no such kind.
        """
        if layout is None and value is None:
            raise ArgumentError(callee="constant", reason="it has neither a value nor a layout")
        constant_kind = choice(ir.ConstantKind, kind, f"the kind of constant '{name}'")
        own_layout = _layout_of_tensor(value) if layout is None else self._layout(layout)
        buffer = self._new_buffer(name, own_layout)
        tied = next(iter(self._draft.names_of(value)), None)
        qualified = name if qualified_name is None else qualified_name
        self._draft.constants[name] = ir.Constant(qualified, constant_kind, mutable, tied)
        if value is not None:
            self._draft.hold(name, value)
        return buffer

    @located
    def object_input(self, name: str, class_name: str) -> Object:
        """Declare that the next input is an object of a custom class.

        ``class_name`` is the class as torch registers it: ``namespace::Class``.

        Raises:
            NameTakenError: A buffer or an object already has the name.
            IllegalNameError: The class name is malformed.
        """
        handle = self._new_object(name, class_name)
        self._take(ir.ObjectInput(name, class_name))
        return handle

    @located
    def object(
        self,
        name: str,
        class_name: str,
        value: Any = None,  # noqa: ANN401 - an object; torch is not imported here
        *,
        qualified_name: str | None = None,
    ) -> Object:
        """Declare an object of a custom class that the program owns.

        Args:
            name: Its name.
            class_name: The class as torch registers it: ``namespace::Class``.
            value: The object. Without it, ``Program.data`` must be given later.
            qualified_name: Its name in the model.

        Raises:
            NameTakenError: A buffer or an object already has the name.
            IllegalNameError: The class name is malformed.
        """
        handle = self._new_object(name, class_name)
        qualified = name if qualified_name is None else qualified_name
        self._draft.objects[name] = ir.ObjectConstant(class_name, qualified)
        if value is not None:
            self._draft.hold(name, value)
        return handle

    @located
    def cpp_kernel(  # noqa: PLR0913 - each says one thing of the kernel
        self,
        name: str,
        code: str,
        *,
        updates: BufferParams = (),
        reads: BufferParams = (),
        writes: BufferParams = (),
        scalars: ScalarParams = (),
        params: Sequence[ir.Param] | None = None,
        entry: str = "kernel",
        isa: str = "",
        flags: Sequence[str] = (),
    ) -> Kernel:
        """Define a kernel from the source of an ``extern "C" void`` function named ``entry``.

        Its parameters are the updated, the read and the written buffers, then the numbers.
        ``params`` allows any other order.

        Args:
            name: The kernel's name in the program.
            code: The source, complete with its includes.
            updates: Names and element types of buffers that it reads and writes.
            reads: Those that it only reads.
            writes: Those that it only writes.
            scalars: Names of numbers, or names and types. The default type is ``int64_t``.
            params: All parameters, instead of the four lists.
            entry: The function's name in the source.
            isa: The instruction set that it was written for. By default any.
            flags: Extra compiler flags.

        Raises:
            NameTakenError: A kernel already has the name.
        """
        all_params = _params_of(params, updates, reads, writes, scalars)
        return self._new_kernel(name, all_params, ir.CppKernel(code, entry, isa, tuple(flags)))

    @located
    def triton_kernel(  # noqa: PLR0913 - each says one thing of the kernel
        self,
        name: str,
        code: str,
        *,
        entry: str | None = None,
        updates: BufferParams = (),
        reads: BufferParams = (),
        writes: BufferParams = (),
        scalars: ScalarParams = (),
        params: Sequence[ir.Param] | None = None,
        signature: Mapping[str, str] | None = None,
        constants: Mapping[str, Any] | None = None,
        num_warps: int = 4,
        num_stages: int = 1,
        options: Mapping[str, Any] | None = None,
    ) -> Kernel:
        """Define a Triton kernel.

        Args:
            name: The kernel's name in the program.
            code: The source: a Python module that defines the function.
            entry: The function's name. By default ``name``.
            updates: Names and element types of buffers that it reads and writes.
            reads: Those that it only reads.
            writes: Those that it only writes.
            scalars: Names of numbers, or names and types. The default is a 64-bit integer.
            params: All parameters, instead of the four lists.
            signature: Triton's types of the parameters. By default derived from these.
            constants: Values of its ``tl.constexpr`` parameters.
            num_warps: Warps per block.
            num_stages: Stages of software pipelining.
            options: Further options for Triton's compiler.

        Raises:
            ArgumentError: A type has no name in Triton.
            NameTakenError: A kernel already has the name.
        """
        all_params = _params_of(params, updates, reads, writes, scalars)
        tables = (signature, constants, options)
        types, values, extra = (tuple((table or {}).items()) for table in tables)
        source = ir.TritonKernel(code, entry or name, types, values, num_warps, num_stages, extra)
        if signature is None:
            types = tuple((param.name, _type(source.language, param)) for param in all_params)
            source = replace(source, signature=types)
        return self._new_kernel(name, all_params, source)

    @located
    def device_kernel(  # noqa: PLR0913 - each says one thing of the kernel
        self,
        name: str,
        code: str,
        *,
        language: str,
        updates: BufferParams = (),
        reads: BufferParams = (),
        writes: BufferParams = (),
        scalars: ScalarParams = (),
        params: Sequence[ir.Param] | None = None,
        entry: str | None = None,
        group: Sequence[int] = (),
        options: Mapping[str, Any] | None = None,
    ) -> Kernel:
        """Define a kernel in a language that a device vendor supplies.

        Args:
            name: The kernel's name in the program.
            code: The source. Only the language's launcher reads it.
            language: The language's name in a registered kind of device.
            updates: Names and element types of buffers that it reads and writes.
            reads: Those that it only reads.
            writes: Those that it only writes.
            scalars: Names of numbers, or names and types. The default is a 64-bit integer.
            params: All parameters, instead of the four lists.
            entry: The function's name in the source. By default ``name``.
            group: The size of a work-group in up to three dimensions. By default the launcher's.
            options: Options for the launcher.

        Raises:
            NameTakenError: A kernel already has the name.
        """
        all_params = _params_of(params, updates, reads, writes, scalars)
        pairs = tuple((options or {}).items())
        source = ir.DeviceKernel(language, code, entry or name, tuple(group), pairs)
        return self._new_kernel(name, all_params, source)


# Parameters of kernels.


def _params_of(
    params: Sequence[ir.Param] | None,
    updates: BufferParams,
    reads: BufferParams,
    writes: BufferParams,
    scalars: ScalarParams,
) -> tuple[ir.Param, ...]:
    """Return ``params``, by default the updated, read and written buffers, then the numbers."""
    if params is not None:
        return tuple(params)
    return (
        *_buffers(updates, ir.Access.READ_WRITE),
        *_buffers(reads, ir.Access.READ),
        *_buffers(writes, ir.Access.WRITE),
        *map(_scalar, scalars),
    )


def _type(language: KernelLanguage, param: ir.Param) -> str:
    """Return the name of a parameter's type in the kernel's language.

    Raises:
        ArgumentError: The language has no name for the element type.
    """
    if isinstance(param, ir.ScalarParam):
        return language.types[param.type.value]
    if param.dtype.short not in language.types:
        reason = f"{language.name} has no name for {param.dtype.torch_name}; give the signature"
        raise ArgumentError(callee=f"parameter '{param.name}'", reason=reason)
    return f"*{language.types[param.dtype.short]}"


def _buffers(params: BufferParams, access: ir.Access) -> list[ir.BufferParam]:
    given: Sequence[object] = params
    for param in given:
        if not isinstance(param, (tuple, list)) or len(param) != 2:
            reason = f"{param!r} is not a pair of name and element type, such as ('x', 'f32')"
            raise ArgumentError(callee="parameters", reason=reason)
    return [ir.BufferParam(name, dtype_of(dtype), access) for name, dtype in params]


def _scalar(given: str | tuple[str, ir.ScalarType | str]) -> ir.ScalarParam:
    if isinstance(given, str):
        return ir.ScalarParam(given)
    name, type_ = given
    try:
        return ir.ScalarParam(name, ir.ScalarType(type_))
    except ValueError:
        names = ", ".join(t.value for t in ir.ScalarType)
        reason = f"{type_!r} is not one of the types {names}"
        raise ArgumentError(callee=f"parameter '{name}'", reason=reason) from None


def _layout_of_tensor(value: Any) -> ir.Layout:  # noqa: ANN401 - a tensor; torch is not imported
    if not hasattr(value, "stride"):
        reason = f"its value must be a tensor, not of type {type(value).__name__}"
        raise ArgumentError(callee="constant", reason=reason)
    device = device_of(str(value.device))
    dtype = dtype_of(str(value.dtype).removeprefix("torch."))
    return ir.Layout(dtype, device, tuple(value.shape), tuple(value.stride()))
