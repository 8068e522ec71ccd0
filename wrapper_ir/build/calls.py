"""Calls of kernels and library ops. Python values become arguments as the callee declares them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import sympy

import wrapper_ir.lines as ir
from wrapper_ir.build.values import (
    ArgumentError,
    Buffer,
    Kernel,
    LayoutError,
    LayoutLike,
    Number,
    Object,
    Part,
    Result,
    ResultError,
    Size,
    device_of,
    dtype_of,
    layout_of,
    located,
    size_of,
)
from wrapper_ir.lines.args import buffers_in

_ENUMS = {"Layout": ir.EnumKind.LAYOUT, "MemoryFormat": ir.EnumKind.MEMORY_FORMAT}

Given = Buffer | Object | Number | None | str | ir.DType | ir.Device | Sequence[Any]
"""An argument of a call."""

Args: TypeAlias = tuple[ir.Arg, ...]

Handle: TypeAlias = Buffer | Object | sympy.Symbol


class KernelCalls(Part):
    """Kernels and ops."""

    @located
    def call(
        self,
        kernel: Kernel,
        *args: Given,
        device: ir.Device | str | None = None,
        stream: int | None = None,
        grid: Size = (),
    ) -> None:
        """Call a kernel.

        Args:
            kernel: The result of :meth:`cpp_kernel`, :meth:`triton_kernel` or
                :meth:`device_kernel`.
            *args: A buffer or number for each parameter, in order.
            device: The device to run on. By default that of the first buffer.
            stream: The stream's number; 0 is the caller's. By default that of the enclosing
                :meth:`on` block.
            grid: The number of blocks of a Triton kernel, in up to three dimensions. The meaning
                for a vendor's language is up to its launcher.

        Raises:
            ArgumentError: There are too few or too many arguments, or one has the wrong kind.
        """
        definition = self._own(kernel, Kernel).definition
        bound = self._kernel_args(f"kernel '{definition.name}'", definition.params, args)
        where = self._device_for(bound) if device is None else device_of(device)
        stream = self._stream_on(where) if stream is None else stream
        self._emit(ir.KernelCall(definition.name, bound, where, stream, size_of(grid)))

    @located
    def extern(
        self,
        schema: str,
        /,
        *args: Given,
        result: LayoutLike | Result | sympy.Symbol | str | None = None,
        results: Sequence[LayoutLike | Result | sympy.Symbol | str | None] | None = None,
        may_alias: bool = False,
        on: tuple[ir.Device | str, int] | None = None,
        **kwargs: Given,
    ) -> Any:  # noqa: ANN401 - the type depends on the requested results
        """Call a library op, declared by its schema. After the first call its name is enough.

        Args:
            schema: A schema such as ``aten::relu(Tensor self) -> Tensor``.
            *args: Positional arguments, of the kinds that the schema declares.
            result: The layout of the only result, the symbol to bind it to, or the class of the
                object that it is (``namespace::Class``).
            results: The same for several results; ``None`` skips one.
            may_alias: Results may be views of the arguments, known only at run time.
            on: Device and stream. By default the device of the first buffer and the current stream.
            **kwargs: Keyword arguments.

        Returns:
            The handle of ``result``, a list of handles of ``results``, or ``None``.

        Raises:
            ResultError: The results are not those of the op, or neither is given for an op that
                returns more than the arguments that it writes.
        """
        op = ir.TorchOp(schema.strip())
        return self._call_op(op, args, kwargs, (result, results), may_alias=may_alias, on=on)

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
        """Call a method of a custom class, declared by its schema like an op.

        Args:
            schema: A schema such as ``ns::Queue.push(__torch__.torch.classes.ns.Queue self,
                Tensor x) -> NoneType``: the class, the method, and the object as first argument.
            *args: Positional arguments, the object first.
            result: As for :meth:`extern`.
            results: As for :meth:`extern`.
            **kwargs: Keyword arguments.

        Returns:
            As for :meth:`extern`.
        """
        op = ir.TorchOp(schema.strip(), is_method=True)
        return self._call_op(op, args, kwargs, (result, results))

    def _call_op(
        self,
        op: ir.TorchOp,
        args: Sequence[Given],
        kwargs: Mapping[str, Given],
        requested: tuple[Any, Sequence[Any] | None],
        *,
        may_alias: bool = False,
        on: tuple[ir.Device | str, int] | None = None,
    ) -> Any:  # noqa: ANN401 - as above
        draft = self._draft
        name = op.schema
        if name not in draft.definitions:
            name = ir.parse_schema(name).name
        if name not in draft.definitions:
            draft.declare(name, op, self._here())
        source = draft.definitions[name].source
        if not isinstance(source, ir.TorchOp):
            raise ArgumentError(callee=name, reason="it is a kernel; use call()")
        schema = ir.parse_schema(source.schema)
        bound, named = self._op_args(schema, args, kwargs)
        result, results = requested
        if result is not None and results is not None:
            raise ResultError(callee=name, reason="give 'result' or 'results', not both")
        values = [each for each in schema.returns if not each.writes and each.base != "NoneType"]
        if values and result is None and results is None:
            reason = "it returns a value; give 'result', or results=[None] to do without"
            raise ResultError(callee=name, reason=reason)
        wanted = list(results or ()) if result is None else [result]
        given = schema.given(bound, named)
        defined, handles = self._op_results(schema, wanted, given, may_alias=may_alias)
        pair: object = on
        if on is not None and not (isinstance(pair, tuple) and len(pair) == 2):
            raise ArgumentError(callee=name, reason="'on' takes a pair: the device and the stream")
        default = self._device_for([*bound, *(arg for _, arg in named)])
        where, stream = on or (default, self._stream_on(default))
        call = ir.ExternKernel(name, bound, named, defined, device_of(where), stream, draft.mempool)
        self._emit(call)
        if result is not None:
            return handles[0]
        return handles if results is not None else None

    # Arguments and results.

    def _kernel_args(self, callee: str, params: Sequence[ir.Param], given: Sequence[Given]) -> Args:
        """Return the arguments of a kernel, with the access that its parameters declare."""
        if len(given) != len(params):
            names = ", ".join(param.name for param in params)
            reason = f"it takes {len(params)} arguments ({names}) but {len(given)} were given"
            raise ArgumentError(callee=callee, reason=reason)
        args: list[ir.Arg] = []
        for param, value in zip(params, given, strict=True):
            if isinstance(param, ir.BufferParam) and isinstance(value, Buffer):
                args.append(ir.BufferArg(self._buffer(value).name, param.access))
            elif not isinstance(param, ir.BufferParam) and isinstance(value, Number):
                args.append(ir.ScalarArg(value))
            else:
                kind = "a buffer" if isinstance(param, ir.BufferParam) else "a number"
                reason = f"parameter '{param.name}' takes {kind}"
                raise ArgumentError(callee=callee, reason=reason)
        return tuple(args)

    def _op_args(
        self, schema: ir.OpSchema, given: Sequence[Given], named: Mapping[str, Given]
    ) -> tuple[Args, tuple[ir.NamedArg, ...]]:
        """Return the arguments of an op, of the kinds and with the access that it declares."""
        positional = schema.positional
        if len(given) > len(positional):
            reason = f"it takes {len(positional)} positional arguments but {len(given)} were given"
            raise ArgumentError(callee=schema.name, reason=reason)
        pairs = zip(positional, given, strict=False)
        args = tuple(self._op_arg(schema, declared, value) for declared, value in pairs)
        kwargs = []
        for name, value in named.items():
            declared = schema.arg(name)
            if declared is None:
                reason = f"it has no argument '{name}'"
                hint = f"it has {', '.join(arg.name for arg in schema.args)}"
                raise ArgumentError(callee=schema.name, reason=reason, hint=hint)
            kwargs.append((name, self._op_arg(schema, declared, value)))
        return args, tuple(kwargs)

    def _op_arg(self, schema: ir.OpSchema, declared: ir.SchemaArg, value: Given) -> ir.Arg:
        access = ir.Access.READ
        if declared.type.writes:
            access = ir.Access.WRITE if declared.keyword_only else ir.Access.READ_WRITE
        try:
            return self._arg(declared.type.base, access, value)
        except (TypeError, LayoutError, ir.UnsupportedExprError) as error:
            reason = f"argument '{declared.name}' cannot be {value!r}: {error}"
            raise ArgumentError(callee=schema.name, reason=reason) from None

    def _arg(self, base: str, access: ir.Access, value: Given) -> ir.Arg:
        if value is None:
            return ir.NoneArg()
        if isinstance(value, Buffer):
            return ir.BufferArg(self._buffer(value).name, access)
        if isinstance(value, Object):
            return ir.ObjectArg(self._own(value, Object).name)
        if base == "ScalarType" and isinstance(value, (str, ir.DType)):
            return ir.DTypeArg(dtype_of(value))
        if base == "Device" and isinstance(value, (str, ir.Device)):
            return ir.DeviceArg(device_of(value))
        if base in _ENUMS and isinstance(value, str):
            return ir.EnumArg(_ENUMS[base], value)
        if isinstance(value, str):
            return ir.StringArg(value)
        if isinstance(value, (list, tuple)):
            return ir.ListArg(tuple(self._arg(base, access, item) for item in value))
        return ir.ScalarArg(value)

    def _op_results(
        self,
        schema: ir.OpSchema,
        results: Sequence[Any],
        bound: Mapping[str, ir.Arg],
        *,
        may_alias: bool,
    ) -> tuple[tuple[ir.OpResult, ...], list[Handle]]:
        """Return the results of an op and the handles for them. ``None`` skips a result."""
        returns = schema.returns
        is_many = schema.returns_tuple or (len(returns) == 1 and returns[0].is_list)
        if not is_many and len(results) > len(returns):
            reason = f"it returns {len(returns)} results but {len(results)} were requested"
            raise ResultError(callee=schema.name, reason=reason)
        args = [*bound.values()]
        devices = [arg.device for arg in args if isinstance(arg, ir.DeviceArg)]
        devices += [self._draft.buffers[arg.buffer].device for arg in buffers_in(args)]
        defined: list[ir.OpResult] = []
        handles: list[Handle] = []
        for index, given in enumerate(results):
            if given is None:
                continue
            result = given if isinstance(given, Result) else Result(given)
            path = result.path
            if path is None:
                path = (index,) if is_many else ()
            handle: Handle
            if isinstance(result.layout, sympy.Symbol):
                handle = result.layout
                defined.append(ir.ResultSymbol(handle.name, path))
            elif isinstance(result.layout, str):
                handle = self._new_object(result.name, result.layout)
                defined.append(ir.ResultObject(handle.name, handle.class_name, path))
            else:
                layout = layout_of(result.layout, device=next(iter(devices), None))
                handle = self._new_buffer(result.name, layout)
                relation, of = _relation(schema, path, bound, result.relation, may_alias=may_alias)
                defined.append(ir.ResultBuffer(handle.name, path, relation, of))
            handles.append(handle)
        return tuple(defined), handles


def _relation(
    schema: ir.OpSchema,
    path: tuple[int | str, ...],
    bound: Mapping[str, ir.Arg],
    relation: ir.Relation | None,
    *,
    may_alias: bool,
) -> tuple[ir.Relation, tuple[str, ...]]:
    """Return a result's relation to the arguments: the given one, or else the schema's."""
    type_ = schema.type_at(path)
    sets = type_.alias_sets if type_ is not None else frozenset()
    if relation is None and may_alias:
        relation = ir.Relation.MAY_ALIAS
    elif relation is None and sets:
        relation = ir.Relation.ALIAS
    elif relation is None:
        takes_objects = any(isinstance(arg, ir.ObjectArg) for arg in bound.values())
        relation = ir.Relation.HELD if takes_objects else ir.Relation.FRESH
    if relation in (ir.Relation.FRESH, ir.Relation.HELD):
        return relation, ()
    sources = buffers_in(schema.sharing(sets or frozenset("*"), bound))
    return relation, tuple(dict.fromkeys(each.buffer for each in sources))
