"""Calls of library ops, from the IR nodes behind Inductor's extern lines."""

from __future__ import annotations

import types
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import sympy
import torch
from torch.utils._pytree import tree_leaves

from wrapper_ir.frontends.common.ops import Bound, Path, call_of, to_device
from wrapper_ir.frontends.common.symbols import Binding, UnknownWayError, bind_along, bindings_of
from wrapper_ir.frontends.inductor.compat import extern_kernels, ir
from wrapper_ir.frontends.inductor.convert import groups, operators, streams
from wrapper_ir.frontends.inductor.errors import UnsupportedLineError
from wrapper_ir.lines.args import (
    Access,
    Arg,
    BufferArg,
    CallResult,
    DeviceArg,
    DTypeArg,
    ObjectArg,
    Relation,
    ResultBuffer,
    ResultObject,
    ResultSymbol,
)
from wrapper_ir.lines.effects import handed_over
from wrapper_ir.lines.layout import CPU, DType, Layout, LayoutKind
from wrapper_ir.lines.schema import GENERATOR
from wrapper_ir.lines.symbols import ItemOf

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from wrapper_ir.frontends.inductor.convert.state import Scope


#: Ops with a quantised result, which fake tensors represent as float.
_QUANTISING: Final = frozenset(
    {"aten::quantize_per_channel", "aten::quantize_per_tensor", "aten::quantize_per_tensor_dynamic"}
)

#: Ops whose result is a C++ object in a byte tensor, which fake tensors represent as float.
_PACKING: Final = frozenset({"_quantized::_wrapped_linear_prepack"})
_PACKED: Final = Layout(DType.UINT8, CPU, (8,), (1,))


class ExternConverter:
    """Converts calls of library ops into a scope.

    Inductor unpacks a tuple result in lines of its own, possibly far from the call. Our call
    defines the leaves itself, so all lines of the wrapper are scanned for them first.
    """

    def __init__(self, scope: Scope, lines: Sequence[Any]) -> None:
        self._scope = scope
        #: Name of a call's whole result -> the line with the symbols that it defines.
        self._symbols: dict[str, Any] = {}
        for line in lines:
            kind = type(line).__name__
            if kind == "MultiOutputLine":
                path = tuple(index for _, index in line.indices)
                self._scope.leaves.setdefault(line.arg_name, {})[path] = line.result_name
            elif kind == "UnbackedSymbolDefsLine" and line.unbacked_bindings:
                self._symbols[line.output_name] = line

    def out(self, line: Any) -> None:
        """Convert a call that writes into an existing buffer."""
        node = line.node
        target = node.output_view if node.output_view is not None else node
        function = operators.function_of(node)
        if function is not None:
            for op, args, kwargs in function(self._scope, node, target):
                self.call(node, op, args, kwargs)
            return
        kwargs = {**node.kwargs, "out": target}
        self.call(node, node_op(node), plain_args(node), kwargs, overwrites=True)

    def alloc(self, line: Any) -> None:
        """Convert a call that allocates its own results."""
        node = line.node
        if isinstance(node, ir.FallbackKernel):
            self._fallback(node)
        else:
            self.call(node, node_op(node), plain_args(node), node.kwargs, self._results(node))
        self.show(node)

    def _fallback(self, node: Any) -> None:
        """Convert a call that Inductor has no lowering for."""
        args, kwargs = node.unflatten_args(node.inputs, node.constant_args)
        kwargs = {**node.kwargs, **kwargs}
        op = node.op_overload
        if op in _HIGHER_ORDER:
            _HIGHER_ORDER[op](self, node, *args, **kwargs)
        elif streams.is_stream_op(op):
            queues, is_region = self._scope.shared.queues, self._scope.is_region
            values, origin = (*args, *kwargs.values()), self._scope.origin(node)
            streams.convert_stream_op(queues, op, values, origin, is_region=is_region)
        elif not groups.makes_group(node):
            self.call(node, node_op(node), args, kwargs, self._results(node))

    def _call_method(self, node: Any, receiver: Any, name: str, *args: Any, **kwargs: Any) -> None:
        """Convert a call of a custom object's method."""
        method = operators.method_of(receiver, name)
        self.call(node, method, (receiver, *args), kwargs, self._results(node))

    def _run_and_save(self, node: Any, op: Any, *args: Any, **kwargs: Any) -> None:
        """Convert a random op whose result is a pair: the generator's state, its own results."""
        parts: tuple[list[CallResult], list[CallResult]] = ([], [])
        for result in self._results(node):
            first, *path = result.path
            parts[int(first)].append(replace(result, path=tuple(path)))
        if parts[0]:
            states = operators.states_of(_device_of(node))
            self.call(node, states.get, states.where, {}, parts[0])
        self.call(node, op, args, kwargs, parts[1])

    def _run_with(self, node: Any, state: Any, op: Any, *args: Any, **kwargs: Any) -> None:
        """Convert a random op that runs under a given generator state, and restore the state."""
        scope, states = self._scope, operators.states_of(_device_of(node))
        before = scope.define(scope.draft.fresh(f"{node.get_name()}_state"), states.layout)
        device_args = tuple(DeviceArg(to_device(device)) for device in states.where)
        self.call(node, states.get, states.where, {}, [ResultBuffer(before)])
        self.call(node, states.set, (state, *states.where), {}, [])
        self.call(node, op, args, kwargs, self._results(node))
        scope.emit(call_of(scope.draft, states.set, (BufferArg(before), *device_args)))

    def _run_with_generator(self, node: Any, op: Any, *args: Any, **kwargs: Any) -> None:
        """Convert a call of a random op that draws from a generator passed to the program."""
        from wrapper_ir.runtime import own_ops  # noqa: PLC0415 - registers ops

        scope, exchange = self._scope, partial(call_of, self._scope.draft, own_ops.EXCHANGE_STATE)
        before = scope.draft.fresh(f"{node.get_name()}_generator")
        scope.draft.reserved.add(before)
        generator = ObjectArg(operators.convert_object(scope, kwargs.pop("rng_state")))
        origin, result = scope.origin(node), ResultObject(before, GENERATOR)
        scope.emit(exchange((generator,), results=(result,), origin=origin))
        self.call(node, op, args, kwargs, self._results(node))
        scope.emit(exchange((ObjectArg(before),), origin=origin))

    def show(self, node: Any) -> None:
        """Show a node's tensor to Inductor's intermediate hooks, if they are enabled."""
        name = operators.hooked_name(node)
        if name:
            from wrapper_ir.runtime import own_ops  # noqa: PLC0415 - registers ops

            self.call(node, own_ops.HOOK, (node, name), {})

    def multi_out(self, line: Any) -> None:
        """Convert a call that writes into several existing buffers."""
        node = line.node
        args, kwargs = node.unflatten_args(node.inputs, node.constant_args)
        outs = dict(zip(node.out_arg_names, node.out_variant_output_nodes, strict=True))
        self.call(node, node_op(node), args, {**node.kwargs, **kwargs, **outs})

    def index_put(self, line: Any) -> None:
        """Convert an in-place ``index_put_``."""
        node = line.node
        target, values = node.inputs[:2]
        args = (target, list(line.indices), values, *node.constant_args)
        self.call(node, torch.ops.aten.index_put_.default, args, {})

    def scatter(self, line: Any) -> None:
        """Convert an in-place ``scatter_`` or ``scatter_reduce_``."""
        node = line.node
        op = node_op(node)
        target, index, *source = node.inputs
        dim, *constant = node.constant_args
        # Inductor keeps the arguments of both ops on the node; each overload has only some of them.
        names = {arg.name for arg in op._schema.arguments}
        kwargs = {k: v for k, v in node.kwargs.items() if k in names and v is not None}
        self.call(node, op, (target, dim, index, *source, *constant), kwargs)

    def call(
        self,
        node: Any,
        op: torch._ops.OpOverload | operators.Method,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        defined: Sequence[CallResult] = (),
        *,
        overwrites: bool = False,
    ) -> None:
        """Emit the call of the op behind a node.

        It overwrites what it writes to if ``overwrites``, whatever its schema says.
        """
        scope, origin = self._scope, self._scope.origin(node)
        bound = operators.bind_arguments(scope, op, args, kwargs, origin)
        ordered = tuple(map(_overwritten, bound.args)) if overwrites else bound.args
        if op is torch.ops.aten.addmm.out:
            ordered = self._with_rows(ordered, dict(bound.kwargs), origin)
        results = tuple(_related(bound, result) for result in defined)
        for result in results:
            if isinstance(result, ResultBuffer):
                scope.draft.buffers[result.out] = self._corrected_layout(bound, result, node)
        node_device = _device_of(node)
        device = to_device(node_device) if node_device is not None else CPU
        line = call_of(scope.draft, bound.op, ordered, bound.kwargs, results, device=device)
        names = scope.leaves.get(node.get_name(), {}).values() if defined else ()
        scope.emit_call(line, [node], [scope.graph.get_buffer(name) for name in names])

    def _with_rows(
        self, args: tuple[Arg, ...], named: Mapping[str, Arg], origin: int | None
    ) -> tuple[Arg, ...]:
        """Expand the vector that ``addmm`` adds to each row into a matrix.

        On a CPU the op would start by making this view through the dispatcher, a sixth of the time
        of a small call. Our view is made once if the vector stays where it is. (A GPU has kernels
        for vectors.)
        """
        bias, out = args[0], named["out"]
        if not isinstance(bias, BufferArg) or not isinstance(out, BufferArg):
            return args
        vector, matrix = self._scope.layout(bias.buffer), self._scope.layout(out.buffer)
        if vector.size != matrix.size[1:] or not matrix.is_static or vector.device != CPU:
            return args
        return (BufferArg(self._scope.rows(bias.buffer, matrix.size, origin)), *args[1:])

    def _corrected_layout(self, call: Bound, result: ResultBuffer, node: Any) -> Layout:
        """Return a result's layout with what Inductor drops but the call or the trace knows.

        Inductor treats all tensors as strided tensors of plain numbers, and views as storage of
        their own.
        """
        layout = self._scope.layout(result.out)
        if call.name in _PACKING:
            return _PACKED
        if call.name in _QUANTISING:
            every = (*call.args, *(value for _, value in call.kwargs))
            dtypes = (arg.dtype for arg in every if isinstance(arg, DTypeArg))
            layout = replace(layout, dtype=next(dtypes, layout.dtype))
        traced = [each for each in getattr(node, "origins", None) or () if each.target is call.op]
        value: Any = traced[0].meta.get("val") if len(traced) == 1 else None
        for step in result.path if value is not None else ():
            value = value[step]
        if not isinstance(value, torch.Tensor):
            return layout
        if value.layout is not torch.strided:
            layout = replace(layout, kind=LayoutKind(str(value.layout).removeprefix("torch.")))
        base = _base_value(call, traced[0])
        if result.relation is Relation.ALIAS and len(result.of) == 1 and base is not None:
            viewed = self._scope.layout(result.of[0])
            distance = _first_byte(value) - _first_byte(base)
            begin = viewed.offset * viewed.dtype.itemsize + self._scope.dim(distance)
            offset = self._scope.dim(begin / sympy.Integer(layout.dtype.itemsize))
            layout = replace(layout, offset=offset)
        return layout

    def _results(self, node: Any) -> list[CallResult]:
        """Define the results of a call: one tensor, the leaves of a tuple, symbols, or nothing."""
        name = node.get_name()
        if isinstance(node.layout, ir.NoneLayout):
            return []
        if isinstance(node.layout, ir.Layout):
            buffer = self._scope.define(name, self._scope.to_layout(node.layout))
            self._scope.leaves[name] = {(): name}
            return [ResultBuffer(buffer)]
        leaves = self._scope.leaves.setdefault(name, {})
        line = self._symbols.get(name)
        if line is not None:
            # A tensor whose size defines a symbol needs a name even if nothing else uses it.
            for path, leaf in _tensor_leaves(line):
                leaves.setdefault(path, leaf.get_name())
        results: list[CallResult] = []
        for path, leaf_name in leaves.items():
            leaf = self._scope.graph.get_buffer(leaf_name)
            if not isinstance(leaf.layout, ir.Layout):
                text = f"{leaf_name} of {node.python_kernel_name}"
                raise UnsupportedLineError("result of an op", text, "it is not a tensor")
            buffer = self._scope.define(leaf_name, self._scope.to_layout(leaf.layout))
            results.append(ResultBuffer(buffer, path))
        if line is not None:
            symbols = [each for each in bindings_of(line.unbacked_bindings) if not each.keys]
            results += [ResultSymbol(self._scope.bind(each.symbol), each.path) for each in symbols]
        return results


_HIGHER_ORDER: Final[Mapping[Any, Callable[..., None]]] = {
    torch.ops.higher_order.call_torchbind: ExternConverter._call_method,
    torch.ops.higher_order.run_and_save_rng_state: ExternConverter._run_and_save,
    torch.ops.higher_order.run_with_rng_state: ExternConverter._run_with,
    torch.ops.higher_order.graphsafe_run_with_rng_state: ExternConverter._run_with_generator,
}


#: Random ops that save the generator's state in a tensor on the host, or start from such a state.
_WITH_STATES: Final = frozenset(
    (torch.ops.higher_order.run_and_save_rng_state, torch.ops.higher_order.run_with_rng_state)
)


def _device_of(node: Any) -> torch.device | None:
    """Return the device that a node runs on.

    Inductor takes it from the first tensor among the arguments. For a random op with a saved state
    that is the state, on the host, so its results decide.
    """
    device: torch.device | None = node.get_device()
    if getattr(node, "op_overload", None) in _WITH_STATES:
        leaves = [leaf for leaf in tree_leaves(node.outputs) if isinstance(leaf, ir.IRNode)]
        devices = [leaf.get_device() for leaf in leaves]
        device = next((each for each in devices if each is not None and each.type != "cpu"), device)
    return device


def node_op(node: Any) -> torch._ops.OpOverload:
    """Return the registered op that a node calls, not a Python function or a higher-order op."""
    op = node.op_overload
    if isinstance(op, torch._ops.OpOverload):
        return op
    name = str(node.python_kernel_name)
    if name.startswith("extern_kernels."):
        packet: Any = getattr(extern_kernels, name.removeprefix("extern_kernels."), None)
        if isinstance(packet, types.BuiltinFunctionType):  # torch's own name for an op
            packet = getattr(torch.ops.aten, packet.__name__, None)
        is_op = isinstance(packet, torch._ops.OpOverloadPacket)
        overloads: Any = packet.overloads if is_op else tuple
        if len(overloads()) == 1:
            only: torch._ops.OpOverload = getattr(packet, overloads()[0])
            return only
    raise UnsupportedLineError("call of an op", name, "it is not an operator in torch's registry")


def plain_args(node: Any) -> tuple[Any, ...]:
    """Return the positional arguments of a node whose op has no lists among them."""
    return (*node.inputs, *node.constant_args)


def _overwritten(arg: Arg) -> Arg:
    """Return an argument that is written to as one that is not read.

    Schemas mean that by arguments that are passed by name, and cannot say it of others.
    """
    if isinstance(arg, BufferArg) and arg.access is Access.READ_WRITE:
        return replace(arg, access=Access.WRITE)
    return arg


def _related(call: Bound, result: CallResult) -> CallResult:
    if not isinstance(result, ResultBuffer):
        return result
    relation, of = call.relation(result.path)
    if relation is Relation.FRESH and any(isinstance(arg, ObjectArg) for arg in call.args):
        relation = Relation.HELD  # an object may return what it keeps
    return ResultBuffer(result.out, result.path, relation, of)


def _base_value(call: Bound, traced: torch.fx.Node) -> torch.Tensor | None:
    """Return the traced value of the only argument that a call can return a view of, if any."""
    position = handed_over(call.schema.name)
    pairs = enumerate(zip(call.schema.positional, traced.args, strict=False))
    candidates = [
        value
        for index, (declared, value) in pairs
        if (declared.type.alias if position is None else index == position)
    ]
    only = candidates[0] if len(candidates) == 1 else None
    return only.meta.get("val") if isinstance(only, torch.fx.Node) else None


def _first_byte(value: torch.Tensor) -> Any:
    return value.storage_offset() * value.itemsize


# Unbacked symbols, from what Inductor's lines and nodes record about them.


def bind_unbacked(scope: Scope, line: Any) -> None:
    """Convert an ``UnbackedSymbolDefsLine``: bind the symbols that a call's result determines."""
    for each in bindings_of(line.unbacked_bindings):
        if each.keys and each.name not in scope.bound:  # else the call itself has defined it
            _bind(scope, each, scope.resolve(scope.leaves[line.output_name][each.path]))


def bind_item(scope: Scope, line: Any) -> None:
    """Convert a ``DynamicScalarLine``: read the only element of a tensor on the host."""
    streams.host_waits(scope.shared.queues)
    node = line.node
    (data,) = node.inputs
    item = ItemOf(scope.reference(data, scope.origin(node)))
    _bind(scope, Binding(node.sym, (), tuple(node.keypath)), item)


def _tensor_leaves(line: Any) -> Iterator[tuple[Path, Any]]:
    """Yield the tensors of a call's result whose metadata define symbols, with their paths."""
    for each in bindings_of(line.unbacked_bindings):
        if each.keys:
            leaf = line.outputs
            for index in each.path or (0,):
                leaf = leaf[index]
            yield each.path, leaf


def _bind(scope: Scope, binding: Binding, start: str | ItemOf) -> None:
    symbol = binding.symbol
    try:
        bind_along(scope.draft, binding, start, bind=lambda: scope.bind(symbol), dim=scope.dim)
    except UnknownWayError as error:
        kind, text = "definition of a symbol", f"{binding.name}: {error.shown}"
        why = "no known path leads from the result to its value"
        raise UnsupportedLineError(kind, text, why) from None
