"""Calls that declare what a program has: symbols, inputs, constants, kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import sympy

from wrapper_ir.build.errors import ArgumentError
from wrapper_ir.build.values import (
    Buffer,
    Kernel,
    LayoutLike,
    Object,
    Part,
    Size,
    choice,
    device_of,
    dtype_of,
    here,
    located,
    new_buffer,
    new_kernel,
    new_object,
    new_symbol,
)
from wrapper_ir.lines import (
    Access,
    BufferInput,
    BufferParam,
    Constant,
    ConstantKind,
    CppKernel,
    Device,
    DeviceKernel,
    DType,
    Input,
    KernelDefinition,
    KernelSource,
    Layout,
    ObjectConstant,
    ObjectInput,
    Param,
    ScalarInput,
    ScalarParam,
    ScalarType,
    SymbolInfo,
    SymbolKind,
    TritonKernel,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wrapper_ir.devices import KernelLanguage

BufferParams: TypeAlias = Sequence[tuple[str, DType | str]]
"""Names and element types."""

ScalarParams: TypeAlias = Sequence[str | tuple[str, ScalarType | str]]
"""Names, or names and machine types; without one it is a 64-bit integer."""


class Declarations(Part):
    """Symbols, inputs, constants and kernels."""

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
        params: Sequence[Param] | None = None,
        entry: str = "kernel",
        isa: str = "",
        flags: Sequence[str] = (),
    ) -> Kernel:
        """Defines a kernel by the source of an ``extern "C" void`` function called ``entry``.

        Its parameters are, in this order, the buffers that it updates, reads and writes, and
        numbers; ``params`` says them in any other order.

        Args:
            name: The kernel's name in the program.
            code: The source, complete with its includes.
            updates: Names and element types of buffers that it reads and writes.
            reads: Those that it only reads.
            writes: Those that it only writes.
            scalars: Names of numbers, or names and types; ``int64_t`` by default.
            params: All parameters, instead of the four lists.
            entry: The function's name in the source.
            isa: The instruction set that it was written for; any by default.
            flags: Further flags for the compiler.

        Raises:
            NameTakenError: There is a kernel of that name.
        """
        if params is None:
            params = _params_of(updates, reads, writes, scalars)
        source = CppKernel(code, entry, isa, tuple(flags))
        return self._kernel(name, tuple(params), source)

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
        params: Sequence[Param] | None = None,
        signature: Mapping[str, str] | None = None,
        constants: Mapping[str, Any] | None = None,
        num_warps: int = 4,
        num_stages: int = 1,
        options: Mapping[str, Any] | None = None,
    ) -> Kernel:
        """Defines a Triton kernel.

        Args:
            name: The kernel's name in the program.
            code: The source: a module of Python that defines the function.
            entry: The function's name; by default ``name``.
            updates: Names and element types of buffers that it reads and writes.
            reads: Those that it only reads.
            writes: Those that it only writes.
            scalars: Names of numbers, or names and types; 64-bit integers by default.
            params: All parameters, instead of the four lists.
            signature: Triton's types of the parameters; by default made from these.
            constants: Values of its ``tl.constexpr`` parameters.
            num_warps: Warps of a block.
            num_stages: Stages of software pipelines.
            options: Further options of Triton's compiler.

        Raises:
            ArgumentError: A type has no name in Triton.
            NameTakenError: There is a kernel of that name.
        """
        found = _params_of(updates, reads, writes, scalars) if params is None else tuple(params)
        source = TritonKernel(
            code,
            entry or name,
            tuple((signature or {}).items()),
            tuple((constants or {}).items()),
            num_warps,
            num_stages,
            tuple((options or {}).items()),
        )
        types = _signature(source.language, found) if signature is None else source.signature
        return self._kernel(name, found, replace(source, signature=types))

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
        params: Sequence[Param] | None = None,
        entry: str | None = None,
        group: Sequence[int] = (),
        options: Mapping[str, Any] | None = None,
    ) -> Kernel:
        """Defines a kernel in a language that the vendor of a device brings.

        Args:
            name: The kernel's name in the program.
            code: The source; only the language's launcher looks into it.
            language: The language's name, as a registered kind of device has it.
            updates: Names and element types of buffers that it reads and writes.
            reads: Those that it only reads.
            writes: Those that it only writes.
            scalars: Names of numbers, or names and types; 64-bit integers by default.
            params: All parameters, instead of the four lists.
            entry: The function's name in the source; by default ``name``.
            group: The size of a work-group in up to three dimensions; by default the launcher's.
            options: Options of the launcher.

        Raises:
            NameTakenError: There is a kernel of that name.
        """
        found = _params_of(updates, reads, writes, scalars) if params is None else tuple(params)
        known = tuple((options or {}).items())
        source = DeviceKernel(language, code, entry or name, tuple(group), known)
        return self._kernel(name, found, source)

    def _kernel(self, name: str, params: tuple[Param, ...], source: KernelSource) -> Kernel:
        definition = KernelDefinition(name, params, source, origin=here(self._draft))
        return new_kernel(self._draft, definition)


# Kernel definitions from lists of parameters.


def _params_of(
    updates: BufferParams, reads: BufferParams, writes: BufferParams, scalars: ScalarParams
) -> tuple[Param, ...]:
    """Parameters in the function's order: updated, read and written buffers, then numbers."""
    return (
        *_buffers(updates, Access.READ_WRITE),
        *_buffers(reads, Access.READ),
        *_buffers(writes, Access.WRITE),
        *map(_scalar, scalars),
    )


def _signature(language: KernelLanguage, params: tuple[Param, ...]) -> tuple[tuple[str, str], ...]:
    """The types of a kernel's parameters, in its language's words.

    Raises:
        ArgumentError: A parameter has an element type that the language has no name for.
    """
    return tuple((param.name, _type(language, param)) for param in params)


def _type(language: KernelLanguage, param: Param) -> str:
    if isinstance(param, ScalarParam):
        return language.types[param.type.value]
    if param.dtype.short not in language.types:
        reason = f"{language.name} has no name for {param.dtype.torch_name}; give the signature"
        raise ArgumentError(callee=f"parameter '{param.name}'", reason=reason)
    return f"*{language.types[param.dtype.short]}"


def _buffers(params: BufferParams, access: Access) -> list[BufferParam]:
    given: Sequence[object] = params
    for param in given:
        if not isinstance(param, (tuple, list)) or len(param) != 2:
            reason = f"{param!r} is no pair of name and element type, such as ('x', 'f32')"
            raise ArgumentError(callee="parameters", reason=reason)
    return [BufferParam(name, dtype_of(dtype), access) for name, dtype in params]


def _scalar(given: str | tuple[str, ScalarType | str]) -> ScalarParam:
    if isinstance(given, str):
        return ScalarParam(given)
    name, type_ = given
    try:
        return ScalarParam(name, ScalarType(type_))
    except ValueError:
        names = ", ".join(t.value for t in ScalarType)
        reason = f"numbers are not of type {type_!r}, but {names}"
        raise ArgumentError(callee=f"parameter '{name}'", reason=reason) from None


def _layout_of_tensor(value: Any) -> Layout:  # noqa: ANN401 - a tensor; torch is not imported
    if not hasattr(value, "stride"):
        reason = f"its value is of type {type(value).__name__}, where a tensor is wanted"
        raise ArgumentError(callee="constant", reason=reason)
    device = device_of(str(value.device))
    dtype = dtype_of(str(value.dtype).removeprefix("torch."))
    return Layout(dtype, device, tuple(value.shape), tuple(value.stride()))
