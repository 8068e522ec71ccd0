"""Calls of library ops, from the IR nodes that stand behind Inductor's extern lines."""

from __future__ import annotations

import types
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import sympy
import torch

from wrapper_ir.frontends.common.ops import NoOverloadError, declare, number_overload, to_device
from wrapper_ir.frontends.common.symbols import UnknownWayError, bind_along, split, way_in
from wrapper_ir.frontends.inductor.compat import extern_kernels, ir
from wrapper_ir.frontends.inductor.convert.arguments import (
    Method,
    bind_arguments,
    function_of,
    method_of,
)
from wrapper_ir.frontends.inductor.convert.operators import (
    GET_STATE,
    HOOK,
    PRINT,
    SET_STATE,
    STATE,
    hooked_name,
    print_arguments,
    runs_and_saves,
    runs_with,
)
from wrapper_ir.frontends.inductor.convert.relations import (
    Path,
    offset_in_argument,
    result_relation,
)
from wrapper_ir.frontends.inductor.convert.streams import convert_stream_op, is_stream_op
from wrapper_ir.frontends.inductor.errors import UnsupportedLineError
from wrapper_ir.lines.args import (
    Arg,
    BufferArg,
    CallResult,
    DTypeArg,
    ObjectArg,
    Relation,
    ResultBuffer,
    ResultSymbol,
)
from wrapper_ir.lines.kernels import ExternKernel
from wrapper_ir.lines.layout import CPU, DType, Layout, LayoutKind
from wrapper_ir.lines.symbols import ItemOf

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from wrapper_ir.frontends.common.symbols import Way
    from wrapper_ir.frontends.inductor.convert.state import Scope


#: Ops whose result is a quantised tensor, which fake tensors take for one of floats.
_QUANTISING: Final = frozenset(
    {"aten::quantize_per_channel", "aten::quantize_per_tensor", "aten::quantize_per_tensor_dynamic"}
)

#: Ops whose result is a C++ object in a tensor of bytes, which fake tensors take for one of floats.
_PACKING: Final = frozenset({"_quantized::_wrapped_linear_prepack"})
_PACKED: Final = Layout(DType.UINT8, CPU, (8,), (1,))


class ExternConverter:
    """Converts calls of library ops into a scope.

    Inductor unpacks a result that is a tuple by lines of its own, which may stand far from the
    call; ours defines the leaves itself. So all lines are looked through for them first.

    Args:
        scope: Where the converted lines go.
        lines: All lines of the wrapper.
    """

    def __init__(self, scope: Scope, lines: Sequence[Any]) -> None:
        self._scope = scope
        #: Names of the leaves of each call's result, by the name of the whole and by path.
        self.leaves: dict[str, dict[Path, str]] = {}
        #: Symbols that each call's result defines, by the name of the whole.
        self._symbols: dict[str, Any] = {}
        for line in lines:
            kind = type(line).__name__
            if kind == "MultiOutputLine":
                path = tuple(index for _, index in line.indices)
                self.leaves.setdefault(line.arg_name, {})[path] = line.result_name
            elif kind == "UnbackedSymbolDefsLine" and line.unbacked_bindings:
                self._symbols[line.output_name] = line

    def out(self, node: Any) -> None:
        """Convert a call that writes into a buffer made before it."""
        target = node.output_view if node.output_view is not None else node
        function = function_of(node)
        if function is not None:
            for op, args, kwargs in function(self._scope, node, target):
                self.call(node, op, args, kwargs)
            return
        self.call(node, node_op(node), _plain_args(node), {**node.kwargs, "out": target})

    def alloc(self, node: Any) -> None:
        """Convert a call that makes its results itself."""
        if isinstance(node, ir.FallbackKernel):
            self._fallback(node)
        else:
            self.call(node, node_op(node), _plain_args(node), node.kwargs, results=True)
        self.show(node)

    def _fallback(self, node: Any) -> None:
        """Convert a call of what Inductor has no lowering for."""
        args, kwargs = node.unflatten_args(node.inputs, node.constant_args)
        kwargs = {**node.kwargs, **kwargs}
        if runs_and_saves(node):
            self._run_and_save(node, *args, **kwargs)
        elif runs_with(node):
            self._run_with(node, *args, **kwargs)
        elif is_stream_op(node.op_overload):
            given = (*args, *kwargs.values())
            convert_stream_op(
                self._scope.shared.queues,
                node.op_overload,
                given,
                self._scope.origin(node),
                is_region=self._scope.is_region,
            )
        elif node.op_overload is torch.ops.higher_order.call_torchbind:
            receiver, method, *rest = args
            self.call(node, method_of(receiver, method), (receiver, *rest), kwargs, results=True)
        else:
            self.call(node, node_op(node), args, kwargs, results=True)

    def _run_and_save(self, node: Any, op: Any, *args: Any, **kwargs: Any) -> None:
        """Convert a call of a random op that gives a pair: the generator's state, its results."""
        parts: tuple[list[CallResult], list[CallResult]] = ([], [])
        for result in self._results(node):
            first, *path = result.path
            parts[int(first)].append(replace(result, path=tuple(path)))
        if parts[0]:
            self._emit(node, GET_STATE, (), {}, parts[0])
        self._emit(node, op, args, kwargs, parts[1])

    def _run_with(self, node: Any, state: Any, op: Any, *args: Any, **kwargs: Any) -> None:
        """Convert a call of a random op with a state of the generator, which is as before then."""
        scope = self._scope
        before = scope.define(scope.draft.fresh(f"{node.get_name()}_state"), STATE)
        self._emit(node, GET_STATE, (), {}, [ResultBuffer(before)])
        self._emit(node, SET_STATE, (state,), {}, [])
        self._emit(node, op, args, kwargs, self._results(node))
        scope.emit(ExternKernel(declare(scope.draft, SET_STATE), (BufferArg(before),)))

    def show(self, node: Any) -> None:
        """Show the tensor that a node computes to Inductor's hooks, where they are asked for."""
        name = hooked_name(node)
        if name:
            self.call(node, HOOK, (node, name), {})

    def print(self, node: Any) -> None:
        """Convert a call that prints."""
        self.call(node, PRINT, print_arguments(node), {})

    def multi_out(self, node: Any) -> None:
        """Convert a call that writes several buffers made before it."""
        args, kwargs = node.unflatten_args(node.inputs, node.constant_args)
        outs = dict(zip(node.out_arg_names, node.out_variant_output_nodes, strict=True))
        self.call(node, node_op(node), args, {**node.kwargs, **kwargs, **outs})

    def index_put(self, node: Any, indices: Sequence[Any]) -> None:
        """Convert an ``index_put_`` in place."""
        target, values = node.inputs[:2]
        args = (target, list(indices), values, *node.constant_args)
        self.call(node, torch.ops.aten.index_put_.default, args, {})

    def scatter(self, node: Any) -> None:
        """Convert a ``scatter_`` or ``scatter_reduce_`` in place."""
        op = node_op(node)
        target, index, *source = node.inputs
        dim, *constant = node.constant_args
        # Inductor keeps arguments of both ops on the node; each overload has only some of them.
        names = {arg.name for arg in op._schema.arguments}
        given = {k: v for k, v in node.kwargs.items() if k in names and v is not None}
        self.call(node, op, (target, dim, index, *source, *constant), given)

    def copy(self, node: Any, target: Any, source: Any, non_blocking: Any) -> None:
        """Convert a copy between buffers, of one device or of two."""
        self.call(node, torch.ops.aten.copy_.default, (target, source, non_blocking), {})

    def call(
        self,
        node: Any,
        op: torch._ops.OpOverload | Method,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        *,
        results: bool = False,
    ) -> None:
        """Emit the call of an op that stands behind a node."""
        self._emit(node, op, args, kwargs, self._results(node) if results else [])

    def _emit(
        self,
        node: Any,
        op: torch._ops.OpOverload | Method,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        defined: list[CallResult],
    ) -> None:
        """Emit the call of an op, and the declaration of the op where it is the first."""
        origin = self._scope.origin(node)
        if not isinstance(op, Method):
            op = _with_numbers(op, args)
        ordered, named = bind_arguments(self._scope, op, args, kwargs, origin)
        if op is torch.ops.aten.addmm.out:
            ordered = self._with_rows(ordered, dict(named), origin)
        if op._schema.name in _QUANTISING:
            self._note_quantised(defined, (*ordered, *(value for _, value in named)))
        if op._schema.name in _PACKING:
            buffers = self._scope.draft.buffers
            buffers.update((r.out, _PACKED) for r in defined if isinstance(r, ResultBuffer))
        related = tuple(_related(op, result, ordered, named) for result in defined)
        self._note_offsets(op, related, getattr(node, "origins", None) or ())
        self._note_kinds(op, related, getattr(node, "origins", None) or ())
        device = node.get_device()
        line = ExternKernel(
            op=self._declared(op),
            args=ordered,
            kwargs=named,
            results=related,
            device=to_device(device) if device is not None else CPU,
        )
        names = self.leaves.get(node.get_name(), {}).values() if defined else ()
        self._scope.emit_call(line, [node], [self._scope.graph.get_buffer(n) for n in names])

    def _declared(self, op: torch._ops.OpOverload | Method) -> str:
        draft = self._scope.draft
        return draft.declare(op.name(), op.source) if isinstance(op, Method) else declare(draft, op)

    def _with_rows(
        self, args: tuple[Arg, ...], named: Mapping[str, Arg], origin: int | None
    ) -> tuple[Arg, ...]:
        """Return arguments of ``addmm`` with a vector that is added to each row made a matrix.

        On a CPU the op would begin with this view, through the dispatcher: a sixth of a small call.
        Ours is made once where the vector stays where it is. (A GPU has kernels for vectors.)
        """
        bias, out = args[0], named["out"]
        if not isinstance(bias, BufferArg) or not isinstance(out, BufferArg):
            return args
        vector, matrix = self._scope.layout(bias.buffer), self._scope.layout(out.buffer)
        fits = vector.size == matrix.size[1:] and matrix.is_static and vector.device == CPU
        if not fits:
            return args
        return (BufferArg(self._scope.rows(bias.buffer, matrix.size, origin)), *args[1:])

    def _note_offsets(
        self,
        op: torch._ops.OpOverload | Method,
        results: Sequence[CallResult],
        traced: Iterable[Any],
    ) -> None:
        """Give views the offsets that the trace knows."""
        scope = self._scope
        for result in results:
            if not isinstance(result, ResultBuffer) or result.relation is not Relation.ALIAS:
                continue
            distance = offset_in_argument(op, result.path, traced)
            if distance is not None and len(result.of) == 1:
                layout, viewed = scope.layout(result.out), scope.layout(result.of[0])
                begin = viewed.offset * viewed.dtype.itemsize + scope.dim(distance)
                offset = scope.dim(begin / sympy.Integer(layout.dtype.itemsize))
                scope.draft.buffers[result.out] = replace(layout, offset=offset)

    def _note_kinds(
        self,
        op: torch._ops.OpOverload | Method,
        results: Sequence[CallResult],
        traced: Iterable[Any],
    ) -> None:
        """Give results that are not strided their kind: Inductor takes all tensors for strided."""
        calls = [each for each in traced if each.target is op]
        for result in results if len(calls) == 1 else ():
            found = calls[0].meta.get("val")
            for step in result.path:
                found = found[step]
            if not isinstance(result, ResultBuffer):
                continue
            if isinstance(found, torch.Tensor) and found.layout is not torch.strided:
                kind = LayoutKind(str(found.layout).removeprefix("torch."))
                layout = self._scope.layout(result.out)
                self._scope.draft.buffers[result.out] = replace(layout, kind=kind)

    def _note_quantised(self, results: Sequence[CallResult], args: Sequence[Any]) -> None:
        """Give a result the element type that the call asks for: Inductor knows none of these."""
        dtype = next((arg.dtype for arg in args if isinstance(arg, DTypeArg)), None)
        for result in results:
            if dtype is not None and isinstance(result, ResultBuffer):
                layout = self._scope.layout(result.out)
                self._scope.draft.buffers[result.out] = replace(layout, dtype=dtype)

    def _results(self, node: Any) -> list[CallResult]:
        """Define what the call returns: one tensor, the leaves of a tuple, numbers, or nothing."""
        name = node.get_name()
        if isinstance(node.layout, ir.NoneLayout):
            return []
        if isinstance(node.layout, ir.Layout):
            made = self._scope.define(name, self._scope.to_layout(node.layout))
            self.leaves[name] = {(): name}
            return [ResultBuffer(made)]
        leaves = self.leaves.setdefault(name, {})
        line = self._symbols.get(name)
        if line is not None:
            # A tensor whose size is wanted must have a name, also when nothing else wants it.
            for path, leaf in tensor_leaves(line):
                leaves.setdefault(path, leaf.get_name())
        found: list[CallResult] = []
        for path, leaf_name in leaves.items():
            leaf = self._scope.graph.get_buffer(leaf_name)
            if not isinstance(leaf.layout, ir.Layout):
                raise UnsupportedLineError(
                    kind="result of an op",
                    text=f"{leaf_name} of {node.python_kernel_name}",
                    why="it is no tensor",
                )
            made = self._scope.define(leaf_name, self._scope.to_layout(leaf.layout))
            found.append(ResultBuffer(made, path))
        if line is not None:
            symbols = result_symbols(line)
            found += [ResultSymbol(self._scope.bind(s), path) for s, path in symbols]
        return found


def node_op(node: Any) -> torch._ops.OpOverload:
    """Return the registered op that a node calls.

    Raises:
        UnsupportedLineError: It calls something else: a Python function, a higher-order op.
    """
    op = node.op_overload
    if isinstance(op, torch._ops.OpOverload):
        return op
    name = str(node.python_kernel_name)
    if name.startswith("extern_kernels."):
        found: Any = getattr(extern_kernels, name.removeprefix("extern_kernels."), None)
        if isinstance(found, types.BuiltinFunctionType):  # torch's own name for an op
            found = getattr(torch.ops.aten, found.__name__, None)
        is_op = isinstance(found, torch._ops.OpOverloadPacket)
        overloads: Any = found.overloads if is_op else tuple
        if len(overloads()) == 1:
            only: torch._ops.OpOverload = getattr(found, overloads()[0])
            return only
    raise UnsupportedLineError(
        kind="call of an op", text=name, why="it is no operator of torch's registry"
    )


def _with_numbers(op: torch._ops.OpOverload, args: Sequence[Any]) -> torch._ops.OpOverload:
    """Return the overload of an op that takes the numbers among its arguments."""
    try:
        found: torch._ops.OpOverload = number_overload(op, args)
    except NoOverloadError as error:
        why = f"a number is given for the tensor {error.names}"
        raise UnsupportedLineError(kind="call of an op", text=str(op), why=why) from None
    return found


def _plain_args(node: Any) -> tuple[Any, ...]:
    return (*node.inputs, *node.constant_args)


def _related(
    op: torch._ops.OpOverload | Method, result: CallResult, args: Any, kwargs: Any
) -> CallResult:
    if not isinstance(result, ResultBuffer):
        return result
    relation, of = result_relation(op, result.path, args, kwargs)
    if relation is Relation.FRESH and any(isinstance(arg, ObjectArg) for arg in args):
        relation = Relation.HELD  # an object may give out what it keeps
    return ResultBuffer(result.out, result.path, relation, of)


# Symbols whose value only the data gives, by what Inductor's lines and nodes note of them.


def bind_unbacked(scope: Scope, leaves: Mapping[str, Mapping[Path, str]], line: Any) -> None:
    """Convert an ``UnbackedSymbolDefsLine``: bind what a call's result decides.

    Args:
        scope: Where the lines go.
        leaves: Names of the leaves of each call's result, by the name of the whole and by path.
        line: Inductor's.

    Raises:
        UnsupportedLineError: The way from the result to the symbol is none that we know.
    """
    for symbol, keypath in (line.unbacked_bindings or {}).items():
        path, rest = split(keypath)
        if not rest:
            continue  # the call itself has defined it
        if symbol.name in scope.bound:
            continue
        buffer = scope.resolve(leaves[line.output_name][path])
        try:
            way = way_in(symbol.name, buffer, rest)
        except UnknownWayError as error:
            raise _unknown(buffer, error) from None
        _bind(scope, symbol, way)


def bind_item(scope: Scope, node: Any) -> None:
    """Convert a ``DynamicScalarLine``: read the only element of a tensor on the host."""
    (data,) = node.inputs
    origin = scope.origin(node)
    _bind(scope, node.sym, (ItemOf(scope.reference(data, origin)), tuple(node.keypath)))


def result_symbols(line: Any) -> list[tuple[sympy.Symbol, Path]]:
    """Return the symbols that are themselves leaves of a call's result, with their paths."""
    found = ((symbol, *split(keypath)) for symbol, keypath in line.unbacked_bindings.items())
    return [(symbol, path) for symbol, path, rest in found if not rest]


def tensor_leaves(line: Any) -> Iterator[tuple[Path, Any]]:
    """Yield the tensors of a call's result whose metadata decide symbols, with their paths."""
    for keypath in line.unbacked_bindings.values():
        path, rest = split(keypath)
        if rest:
            leaf = line.outputs
            for index in path or (0,):
                leaf = leaf[index]
            yield path, leaf


def _bind(scope: Scope, symbol: sympy.Symbol, way: Way) -> None:
    try:
        bind_along(scope.draft, symbol.name, way, bind=lambda: scope.bind(symbol), dim=scope.dim)
    except UnknownWayError as error:
        raise _unknown(symbol.name, error) from None


def _unknown(what: str, error: UnknownWayError) -> UnsupportedLineError:
    return UnsupportedLineError(
        kind="definition of a symbol", text=f"{what}: {error.shown}", why="unknown way to its value"
    )
