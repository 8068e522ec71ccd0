"""Calls of kernels and library ops: Python values to lines, by what is declared of the callee."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import sympy

from wrapper_ir.build.errors import ArgumentError, LayoutError, ResultError
from wrapper_ir.build.values import (
    Buffer,
    Kernel,
    LayoutLike,
    Number,
    Object,
    Part,
    Result,
    Size,
    device_of,
    dtype_of,
    here,
    layout_of,
    located,
    new_buffer,
    new_object,
    own,
    place,
    size_of,
    stream_on,
)
from wrapper_ir.lines import (
    Access,
    Arg,
    BufferArg,
    BufferParam,
    Device,
    DeviceArg,
    DType,
    DTypeArg,
    EnumArg,
    EnumKind,
    ExternKernel,
    KernelCall,
    ListArg,
    NamedArg,
    NoneArg,
    ObjectArg,
    OpResult,
    OpSchema,
    Param,
    Relation,
    ResultBuffer,
    ResultObject,
    ResultSymbol,
    ScalarArg,
    SchemaArg,
    StringArg,
    TorchOp,
    UnsupportedExprError,
    parse_schema,
)
from wrapper_ir.lines.args import buffers_in

if TYPE_CHECKING:
    from wrapper_ir.build.draft import ProgramDraft

_ENUMS = {"Layout": EnumKind.LAYOUT, "MemoryFormat": EnumKind.MEMORY_FORMAT}

Given = Buffer | Object | Number | None | str | DType | Device | Sequence[Any]
"""What a call takes for an argument."""


def kernel_args(
    draft: ProgramDraft, name: str, params: tuple[Param, ...], given: Sequence[Given]
) -> tuple[Arg, ...]:
    """Arguments of a kernel, with the access that its parameters declare.

    Raises:
        ArgumentError: their number or kind is wrong.
    """
    if len(given) != len(params):
        names = ", ".join(param.name for param in params)
        raise ArgumentError(
            callee=f"kernel '{name}'",
            reason=f"{len(given)} arguments are given for {len(params)} parameters ({names})",
        )
    return tuple(_kernel_arg(draft, name, p, value) for p, value in zip(params, given, strict=True))


def _kernel_arg(draft: ProgramDraft, name: str, param: Param, value: Given) -> Arg:
    if isinstance(param, BufferParam):
        if not isinstance(value, Buffer):
            raise ArgumentError(
                callee=f"kernel '{name}'", reason=f"parameter '{param.name}' takes a buffer"
            )
        return BufferArg(own(draft, value, Buffer).name, param.access)
    if isinstance(value, Buffer) or not _is_number(value):
        raise ArgumentError(
            callee=f"kernel '{name}'", reason=f"parameter '{param.name}' takes a number"
        )
    return ScalarArg(value)


def op_args(
    draft: ProgramDraft, schema: OpSchema, given: Sequence[Given], named: Mapping[str, Given]
) -> tuple[tuple[Arg, ...], tuple[NamedArg, ...]]:
    """Arguments of an op, of the kinds and with the access that its schema declares.

    Raises:
        ArgumentError: there are too many, or a name is unknown, or a value fits no type.
    """
    positional = schema.positional
    if len(given) > len(positional):
        raise ArgumentError(
            callee=schema.name,
            reason=f"{len(given)} arguments are given by position, it takes {len(positional)}",
        )
    args = tuple(
        _op_arg(draft, schema, declared, value)
        for declared, value in zip(positional, given, strict=False)
    )
    kwargs = []
    for name, value in named.items():
        declared = schema.arg(name)
        if declared is None:
            names = ", ".join(arg.name for arg in schema.args)
            raise ArgumentError(
                callee=schema.name, reason=f"it has no argument '{name}'", hint=f"it has {names}"
            )
        kwargs.append((name, _op_arg(draft, schema, declared, value)))
    return args, tuple(kwargs)


def _op_arg(draft: ProgramDraft, schema: OpSchema, declared: SchemaArg, value: Given) -> Arg:
    access = Access.READ
    if declared.type.writes:
        access = Access.WRITE if declared.keyword_only else Access.READ_WRITE
    try:
        return _arg(draft, declared.type.base, access, value)
    except (TypeError, LayoutError, UnsupportedExprError) as error:
        raise ArgumentError(
            callee=schema.name, reason=f"argument '{declared.name}' cannot be {value!r}: {error}"
        ) from None


def _arg(draft: ProgramDraft, base: str, access: Access, value: Given) -> Arg:
    if value is None:
        return NoneArg()
    if isinstance(value, Buffer):
        return BufferArg(own(draft, value, Buffer).name, access)
    if isinstance(value, Object):
        return ObjectArg(own(draft, value, Object).name)
    if base == "ScalarType" and isinstance(value, (str, DType)):
        return DTypeArg(dtype_of(value))
    if base == "Device" and isinstance(value, (str, Device)):
        return DeviceArg(device_of(value))
    if base in _ENUMS and isinstance(value, str):
        return EnumArg(_ENUMS[base], value)
    if isinstance(value, str):
        return StringArg(value)
    if isinstance(value, (list, tuple)):
        return ListArg(tuple(_arg(draft, base, access, item) for item in value))
    return ScalarArg(value)


def op_results(
    draft: ProgramDraft,
    schema: OpSchema,
    results: Sequence[Any],
    args: tuple[Arg, ...],
    kwargs: tuple[NamedArg, ...],
    *,
    may_alias: bool,
) -> tuple[tuple[OpResult, ...], list[Buffer | Object | sympy.Symbol]]:
    """Results of an op as lines say them, and the handles for them; ``None`` skips one.

    Raises:
        ResultError: they are more than the op returns.
    """
    returns = schema.returns
    is_many = schema.returns_tuple or (len(returns) == 1 and returns[0].is_list)
    if not is_many and len(results) > len(returns):
        reason = f"{len(results)} results are asked for, it returns {len(returns)}"
        raise ResultError(callee=schema.name, reason=reason)
    bound = schema.given(args, kwargs)
    device = _device(draft, bound.values())
    found: list[OpResult] = []
    handles: list[Buffer | Object | sympy.Symbol] = []
    for index, given in enumerate(results):
        if given is None:
            continue
        result = given if isinstance(given, Result) else Result(given)
        path = result.path
        if path is None:
            path = (index,) if is_many else ()
        if isinstance(result.layout, sympy.Symbol):
            found.append(ResultSymbol(result.layout.name, path))
            handles.append(result.layout)
            continue
        if isinstance(result.layout, str):
            made = new_object(draft, result.name, result.layout)
            found.append(ResultObject(made.name, made.class_name, path))
            handles.append(made)
            continue
        buffer = new_buffer(draft, result.name, layout_of(result.layout, device=device))
        relation, of = _relation(schema, path, bound, result.relation, may_alias=may_alias)
        found.append(ResultBuffer(buffer.name, path, relation, of))
        handles.append(buffer)
    return tuple(found), handles


def _relation(
    schema: OpSchema,
    path: tuple[int | str, ...],
    bound: Mapping[str, Arg],
    given: Relation | None,
    *,
    may_alias: bool,
) -> tuple[Relation, tuple[str, ...]]:
    """Return how a result relates to the arguments: as the call says, or else the schema."""
    type_ = schema.type_at(path)
    sets = type_.alias_sets if type_ is not None else frozenset()
    relation = given
    if relation is None:
        relation = Relation.ALIAS if sets else Relation.FRESH
        relation = Relation.MAY_ALIAS if may_alias else relation
        if relation is Relation.FRESH and any(isinstance(arg, ObjectArg) for arg in bound.values()):
            relation = Relation.HELD
    if relation in (Relation.FRESH, Relation.HELD):
        return relation, ()
    sources = buffers_in(schema.sharing(sets or frozenset("*"), bound))
    return relation, tuple(dict.fromkeys(each.buffer for each in sources))


def _device(draft: ProgramDraft, args: Collection[Arg]) -> Device | None:
    """Return the default device of the results: that of the arguments."""
    named = (arg.device for arg in args if isinstance(arg, DeviceArg))
    held = (draft.buffers[arg.buffer].device for arg in buffers_in(args))
    return next(itertools.chain(named, held), None)


def _is_number(value: object) -> bool:
    return isinstance(value, (bool, int, float, complex, sympy.Basic))


# Calls of kernels and ops.


class _Wanted(NamedTuple):
    """Keyword arguments of :meth:`KernelCalls.extern` besides the op's own arguments."""

    result: LayoutLike | Result | sympy.Symbol | str | None = None
    results: Sequence[LayoutLike | Result | sympy.Symbol | str | None] | None = None
    may_alias: bool = False
    on: tuple[Device | str, int] | None = None


class KernelCalls(Part):
    """Kernels and ops."""

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
