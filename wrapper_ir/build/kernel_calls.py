"""Calls that define kernels, and those that call kernels and library ops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from wrapper_ir.build.base import Part, located
from wrapper_ir.build.calls import Given, kernel_args, op_args, op_results
from wrapper_ir.build.errors import ArgumentError, ResultError
from wrapper_ir.build.values import (
    Kernel,
    LayoutLike,
    Result,
    Size,
    device_of,
    dtype_of,
    here,
    new_kernel,
    own,
    place,
    size_of,
    stream_on,
)
from wrapper_ir.lines import (
    Access,
    BufferArg,
    BufferParam,
    CppKernel,
    Device,
    DeviceKernel,
    DType,
    ExternKernel,
    KernelCall,
    KernelDefinition,
    KernelSource,
    Param,
    ScalarParam,
    ScalarType,
    TorchOp,
    TritonKernel,
    parse_schema,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    import sympy

    from wrapper_ir.devices import KernelLanguage


BufferParams: TypeAlias = Sequence[tuple[str, DType | str]]
"""Names and element types."""

ScalarParams: TypeAlias = Sequence[str | tuple[str, ScalarType | str]]
"""Names, or names and machine types; without one it is a 64-bit integer."""


class _Wanted(NamedTuple):
    """Keyword arguments of :meth:`KernelCalls.extern` besides the op's own arguments."""

    result: LayoutLike | Result | sympy.Symbol | str | None = None
    results: Sequence[LayoutLike | Result | sympy.Symbol | str | None] | None = None
    may_alias: bool = False
    on: tuple[Device | str, int] | None = None


class KernelCalls(Part):
    """Kernels and ops."""

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

    @located
    def call(
        self,
        kernel: Kernel,
        *args: Given,
        device: Device | str | None = None,
        stream: int | None = None,
        grid: Size = (),
    ) -> None:
        """Calls a kernel.

        Args:
            kernel: What :meth:`cpp_kernel`, :meth:`triton_kernel` or :meth:`device_kernel` gave.
            *args: A buffer or number for each parameter, in their order.
            device: Where it runs; by default where its first buffer is.
            stream: The stream's number; 0 is the caller's. By default that of the block that
                :meth:`on` opened.
            grid: How many blocks a Triton kernel has, in up to three dimensions; for a kernel of a
                device's language, what its launcher takes.

        Raises:
            ArgumentError: There are more or fewer than parameters, or one is of another kind.
        """
        draft = self._draft
        definition = own(draft, kernel, Kernel).definition
        found = kernel_args(draft, definition.name, definition.params, args)
        buffers = [arg.buffer for arg in found if isinstance(arg, BufferArg)]
        where = draft.buffers[buffers[0]].device if buffers else self.device
        where = where if device is None else device_of(device)
        stream = stream_on(draft, where) if stream is None else stream
        origin = here(draft)
        draft.emit(KernelCall(definition.name, found, where, stream, size_of(grid), origin=origin))

    @located
    def extern(
        self,
        schema: str,
        /,
        *args: Given,
        result: LayoutLike | Result | sympy.Symbol | str | None = None,
        results: Sequence[LayoutLike | Result | sympy.Symbol | str | None] | None = None,
        may_alias: bool = False,
        on: tuple[Device | str, int] | None = None,
        **kwargs: Given,
    ) -> Any:  # noqa: ANN401 - what comes back depends on what is asked for
        """Calls a library op, declared by its schema (its name is enough from the second call on).

        Args:
            schema: Such as ``aten::relu(Tensor self) -> Tensor``.
            *args: Arguments by position, of the kinds that the schema says.
            result: The layout of the one result, or the symbol that it is bound to, or the class of
                the object that it is, ``namespace::Class``.
            results: Those of several results; ``None`` skips one.
            may_alias: Whether results are perhaps views of the arguments, known only at run time.
            on: Device and stream; by default those of the first buffer, and 0.
            **kwargs: Arguments by name.

        Returns:
            The handle of ``result``, or a list of those of ``results``, or ``None``.
        """
        wanted = _Wanted(result, results, may_alias, on)
        return self._call_op(TorchOp(schema.strip()), args, kwargs, wanted)

    @located
    def method(
        self,
        schema: str,
        /,
        *args: Given,
        result: LayoutLike | Result | sympy.Symbol | str | None = None,
        results: Sequence[LayoutLike | Result | sympy.Symbol | str | None] | None = None,
        **kwargs: Given,
    ) -> Any:  # noqa: ANN401 - as above
        """Calls a method of a custom class, declared by its schema like an op.

        Args:
            schema: Such as ``ns::Queue.push(__torch__.torch.classes.ns.Queue self, Tensor x) ->
                NoneType``: the class, the method, and the object as its first argument.
            *args: Arguments by position, the object first.
            result: As of :meth:`extern`.
            results: As of :meth:`extern`.
            **kwargs: Arguments by name.

        Returns:
            As :meth:`extern`.
        """
        source = TorchOp(schema.strip(), is_method=True)
        return self._call_op(source, args, kwargs, _Wanted(result, results))

    def _call_op(
        self,
        op: TorchOp,
        args: Sequence[Given],
        kwargs: Mapping[str, Given],
        asked: _Wanted,
    ) -> Any:  # noqa: ANN401 - as above
        draft = self._draft
        name = op.schema
        if name not in draft.definitions:
            name = parse_schema(name).name
        if name not in draft.definitions:
            draft.declare(name, op, here(draft))
        source_of = draft.definitions[name].source
        if not isinstance(source_of, TorchOp):
            raise ArgumentError(callee=name, reason="it is a kernel; use call()")
        declared = parse_schema(source_of.schema)
        found_args, found_kwargs = op_args(draft, declared, args, kwargs)
        result, results, on = asked.result, asked.results, asked.on
        wanted = list(results or ()) if result is None else [result]
        if result is not None and results is not None:
            raise ResultError(callee=name, reason="give 'result' or 'results', not both")
        found, handles = op_results(
            draft, declared, wanted, found_args, found_kwargs, may_alias=asked.may_alias
        )
        pair: object = on
        if on is not None and not (isinstance(pair, tuple) and len(pair) == 2):
            raise ArgumentError(callee=name, reason="'on' takes a pair: the device and the stream")
        where, stream = on or place(
            draft, [*found_args, *(arg for _, arg in found_kwargs)], self.device
        )
        draft.emit(
            ExternKernel(
                name,
                found_args,
                found_kwargs,
                found,
                device_of(where),
                stream,
                draft.mempool,
                origin=here(draft),
            )
        )
        if result is not None:
            return handles[0]
        return handles if results is not None else None


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
