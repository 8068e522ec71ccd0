"""Arguments of library ops in schema order, and ops in place of what else Inductor calls."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import torch

from wrapper_ir import lines
from wrapper_ir.frontends.common import ops
from wrapper_ir.frontends.common.ops import Bound, call_of
from wrapper_ir.frontends.inductor.compat import extern_kernels, inductor_config, ir
from wrapper_ir.frontends.inductor.convert import groups
from wrapper_ir.frontends.inductor.convert.values import to_dtype
from wrapper_ir.frontends.inductor.errors import UnsupportedLineError
from wrapper_ir.lines.schema import GENERATOR
from wrapper_ir.runtime import class_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from wrapper_ir.frontends.inductor.convert.state import Scope


def bind_arguments(
    scope: Scope,
    op: torch._ops.OpOverload | Method,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    origin: int | None,
) -> Bound:
    """Bind an op's arguments to its schema; each must have a place there, and a form in the IR."""

    def convert(value: Any, declared: lines.SchemaArg, access: lines.Access) -> lines.Arg:
        del declared
        if isinstance(value, lines.BufferArg):  # a view that Inductor does not know
            return replace(value, access=access)
        if name := groups.group_name(scope, value):
            return lines.StringArg(name)
        return to_arg(scope, value, origin, access) or _plain(scope, value)

    try:
        return ops.bind_arguments(op, args, kwargs, convert)
    except (ops.MisfitError, lines.SchemaError) as error:
        raise UnsupportedLineError("call of an op", str(op), str(error)) from None


def is_tensor(value: Any) -> bool:
    """Return whether one of Inductor's values is a tensor."""
    return isinstance(value, (ir.MutableBox, ir.ReinterpretView, ir.Buffer))


def to_arg(
    scope: Scope, value: Any, origin: int | None = None, access: lines.Access = lines.Access.READ
) -> lines.BufferArg | lines.ScalarArg | lines.NoneArg | None:
    """Return a tensor, a number or None as an argument, or None if the value is something else."""
    if value is None or isinstance(value, ir.NoneAsConstantBuffer):
        return lines.NoneArg()
    if is_tensor(value):
        return lines.BufferArg(scope.reference(value, origin), access)
    if isinstance(value, ir.ShapeAsConstantBuffer):
        value = value.expr
    return lines.ScalarArg(scope.scalar(value)) if isinstance(value, ops.NUMBERS) else None


def convert_results(scope: Scope, outputs: list[Any]) -> tuple[lines.Value, ...]:
    """Return the results in order. A result that is a view becomes a buffer by a last line."""
    return tuple(_result(scope, node) for node in outputs)


def _result(scope: Scope, node: Any) -> lines.Value:
    match to_arg(scope, node):
        case lines.BufferArg(buffer=name):
            return lines.BufferValue(name)
        case lines.ScalarArg(value=value):
            return lines.ScalarValue(value)
        case lines.NoneArg():
            return lines.NoneValue()
        case None:
            why = "it is neither a tensor, a number nor None"
            raise UnsupportedLineError("graph output", type(node).__name__, why)


def _plain(scope: Scope, value: Any) -> lines.Arg:
    """Return an argument that is neither a tensor nor a number."""
    if isinstance(value, OBJECTS):
        return lines.ObjectArg(convert_object(scope, value))
    if isinstance(value, torch.dtype):
        return lines.DTypeArg(to_dtype(value))
    arg = ops.plain_argument(value)
    if arg is not None:
        return arg
    why = "the IR has no such argument"
    raise UnsupportedLineError("argument of an op", type(value).__name__, why)


# Objects of custom classes and calls of their methods; random number generators.

#: Inductor's nodes for them.
OBJECTS: Final = (ir.TorchBindObject, ir.GeneratorState)

_OTHER: Final = re.compile(r"[^A-Za-z0-9_]+", re.ASCII)


@dataclass(frozen=True)
class Method:
    """A method of a custom class, with the interface of an op in torch's registry."""

    class_name: str  #: ``namespace::Class``
    _schema: Any  #: torch's; the object is the first argument

    def name(self) -> str:
        """Return the name that calls use: ``namespace::Class.method``."""
        return f"{self.class_name}.{self._schema.name}"

    @property
    def source(self) -> lines.TorchOp:
        """Its declaration under that name."""
        return lines.TorchOp(f"{self.class_name}.{self._schema}", is_method=True)


def method_of(receiver: Any, name: str) -> Method:
    """Return a method of one of Inductor's objects by name."""
    value = real_object(receiver.get_name(), receiver.get_value())
    return Method(class_of(value), value._get_method(name).schema)


def traced_object(value: Any) -> Any:
    """Return the real object behind a fake one that Inductor traced with, or the value itself."""
    return getattr(value, "real_obj", value)


def real_object(name: str, value: Any) -> torch.ScriptObject:
    """Return the real object behind one that Inductor traced with; torch must know its class."""
    obj = traced_object(value)
    if not class_of(obj):
        why = "its class is not registered with torch.classes"
        raise UnsupportedLineError("object", f"{name}: {type(obj).__name__}", why)
    return obj  # type: ignore[no-any-return]  # only objects have a class


def object_input(scope: Scope, name: str, node: Any) -> lines.ObjectInput:
    """Return the input for one of Inductor's objects, which a region cannot have."""
    if scope.is_region:
        raise _in_region(name)
    input_name = scope.objects[name] = scope.name(name)
    scope.draft.reserved.add(input_name)
    if isinstance(node, ir.GeneratorState):
        return lines.ObjectInput(input_name, GENERATOR)
    return lines.ObjectInput(input_name, class_of(real_object(name, node.get_value())))


def convert_object(scope: Scope, node: Any) -> str:
    """Return the name of an object that is passed as an argument, which a region cannot do."""
    name = node.get_name()
    if scope.is_region:
        raise _in_region(name)
    if name not in scope.objects:
        value = real_object(name, node.get_value())
        existing = (n for n in scope.draft.names_of(value) if n in scope.draft.objects)
        new = next(existing, "") or scope.draft.fresh(_OTHER.sub("_", name))
        scope.objects[name] = new
        scope.draft.reserved.add(new)
        scope.draft.objects[new] = lines.ObjectConstant(class_of(value), name)
        scope.draft.hold(new, value)
    return scope.objects[name]


def _in_region(name: str) -> UnsupportedLineError:
    why = "it is used inside a branch, a loop or another subgraph"
    return UnsupportedLineError("object", name, why)


# Python functions that tuning chose and Inductor calls like ops, as the ops that they call.
#
# Each is one of ``extern_kernels``. Decisions that such a function makes from layouts at run time
# are made here. A function that asks a GPU or another library has no form.


Call: TypeAlias = "tuple[Any, tuple[Any, ...], Mapping[str, Any]]"
"""An op, and its arguments: Inductor's nodes, or views that are made for the call."""

Function: TypeAlias = "Callable[[Scope, Any, Any], Iterator[Call]]"
"""Gives the calls of a function, of its node and of what it writes into."""


def function_of(node: Any) -> Function | None:
    """Return the form of the function that a node calls, or None if it has none here."""
    name = str(node.python_kernel_name).removeprefix("extern_kernels.")
    is_one = node.op_overload is None and hasattr(extern_kernels, name)
    return _FUNCTIONS.get(name) if is_one else None


def _bias_addmm(scope: Scope, node: Any, out: Any) -> Iterator[Call]:
    """Yield ``addmm`` with an expanded bias reduced to one row, which cuBLAS adds on the fly."""
    bias, *matrices = node.inputs
    name = scope.reference(bias)
    layout = scope.layout(name)
    if layout.stride[0] == 0 or layout.size[0] == 1:
        name = scope.relaid(name, _chosen(layout, range(1, layout.rank)))
    args = (lines.BufferArg(name), *matrices)
    yield torch.ops.aten.addmm.out, args, {**node.kwargs, "out": out}


def _conv1x1_via_mm(scope: Scope, node: Any, out: Any) -> Iterator[Call]:
    """Yield a 1x1 convolution as a matrix product, channels last."""

    def view(name: str, *dims: int) -> lines.BufferArg:
        return lines.BufferArg(scope.relaid(name, _chosen(scope.layout(name), dims)))

    x, weight = (scope.reference(item) for item in node.inputs)
    args = view(x, 0, 2, 3, 1), view(weight, 1, 0)
    result = view(scope.reference(out), 0, 2, 3, 1)
    yield torch.ops.aten.matmul.out, args, {**node.kwargs, "out": result}


def _scaled_mm_with_output_scale(scope: Scope, node: Any, out: Any) -> Iterator[Call]:
    """Yield a product of scaled matrices, then its output scale."""
    *args, scale = node.inputs
    yield torch.ops.aten._scaled_mm.out, tuple(args), {**node.kwargs, "out": out}
    yield torch.ops.aten.mul.out, (out, scale), {"out": out}


def _chosen(layout: lines.Layout, dims: Any) -> lines.Layout:
    """Return the layout of a view with the given dimensions, in that order."""
    size = tuple(layout.size[dim] for dim in dims)
    return replace(layout, size=size, stride=tuple(layout.stride[dim] for dim in dims))


_FUNCTIONS: Final[Mapping[str, Function]] = {
    "bias_addmm": _bias_addmm,
    "conv1x1_via_mm": _conv1x1_via_mm,
    "scaled_mm_with_output_scale": _scaled_mm_with_output_scale,
}


# Calls of operators of our own, in place of Python functions that Inductor's wrapper calls.
#
# The operators are in ``wrapper_ir.runtime.own_ops``, which is imported for the first call of one.


# Inductor's checks for NaN and infinity (``nan_asserts``).
#
# Inductor asserts in Python that a graph's inputs and results are finite, and also, in text after
# its call, each Triton kernel's arguments.


def add_checks(
    scope: Scope, start: int, inputs: Sequence[lines.Input], results: Sequence[lines.Value]
) -> None:
    """Check the inputs before the line ``start`` and the results at the end, if enabled."""
    if not inductor_config.nan_asserts:
        return
    names = [each.name for each in inputs if isinstance(each, lines.BufferInput)]
    returned = dict.fromkeys(each.buffer for each in results if isinstance(each, lines.BufferValue))
    scope.body[start:start] = [_line(scope, name, f"input '{name}'") for name in names]
    scope.body += [_line(scope, name, f"result '{name}'") for name in returned]


def add_check(scope: Scope, text: str, kernel: str, passed: Sequence[str]) -> bool:
    """Check a buffer after a kernel call if that is what the text does, and return whether it is.

    ``kernel`` is the last kernel called, and ``passed`` are Inductor's names of its arguments.
    """
    if not inductor_config.nan_asserts:
        return False
    for name in passed:
        if text == f"assert not {name}.isnan().any().item()":
            scope.emit(_line(scope, scope.resolve(name), f"'{name}' after '{kernel}'"))
            return True
        if text == f"assert not {name}.isinf().any().item()":
            return True  # one call finds both
    return False


def _line(scope: Scope, buffer: str, name: str) -> lines.ExternKernel:
    from wrapper_ir.runtime import own_ops  # noqa: PLC0415 - registers ops

    return call_of(scope.draft, own_ops.FINITE, (lines.BufferArg(buffer), lines.StringArg(name)))


# Inductor's hooks for intermediate values (``generate_intermediate_hooks``).
#
# Inductor calls a Python function after each node that it shows.


def hooked_name(node: Any) -> str:
    """Return the name under which the hooks see an IR node's result; empty if they do not.

    Inductor knows the origin of single tensors only, not of several results of one call.
    """
    if not inductor_config.generate_intermediate_hooks or not isinstance(node.layout, ir.Layout):
        return ""
    origin = node.get_origin_node()
    return str(origin.name) if origin is not None else ""


# ``torch._higher_order_ops.print``, which prints while a program runs.
#
# Inductor calls Python's ``print``, with tensors and numbers mixed.


def print_arguments(node: Any) -> tuple[Any, ...]:
    """Return the op's arguments for an IR node that prints tensors and numbers."""
    from wrapper_ir.runtime import own_ops  # noqa: PLC0415 - registers ops

    (text, *args), kwargs = node.unflatten_args(node.inputs, node.constant_args)
    tensors: list[Any] = []
    numbers: list[Any] = []
    given: list[str] = []
    named = {**node.kwargs, **kwargs}
    for name, value in [*(("", value) for value in args), *named.items()]:
        kind = own_ops.TENSOR if is_tensor(value) else own_ops.NUMBER
        if isinstance(value, (str, list, tuple, dict, type(None))):
            why = f"it prints a value of type {type(value).__name__}"
            raise UnsupportedLineError("call of print", repr(text), why)
        (tensors if kind == own_ops.TENSOR else numbers).append(value)
        given.append(f"{name}={kind}" if name else kind)
    return text, tensors, numbers, given


# Random ops that are rerun with the generator state of their first run.
#
# Checkpointed code calls random ops in the forward and again in the backward, and must draw the
# same numbers. Inductor uses two higher-order ops of torch for that (``run_and_save_rng_state``,
# ``run_with_rng_state``), which take an op and its arguments. A program has the op itself, next to
# ops that get and set the generator's state. On a GPU there is a third
# (``graphsafe_run_with_rng_state``): the forward and the backward are each passed a generator of
# their own, which advances from call to call. It is not used with ``fallback_random``, nor for a
# graph that draws on several GPUs.


class States(NamedTuple):
    """Ops that return and set the state of a device's generator, as a tensor on the host."""

    get: Any
    set: Any
    where: tuple[torch.device, ...]  #: extra arguments of both
    layout: lines.Layout  #: of the state


def states_of(device: torch.device | None) -> States:
    """Return the ops for a device's generator, or the CPU's for a node without a device."""
    from wrapper_ir.runtime import own_ops  # noqa: PLC0415 - registers ops

    if device is None or device.type == "cpu":
        layout = lines.Layout(lines.DType.UINT8, lines.CPU, (own_ops.BYTES,), (1,))
        return States(own_ops.GET_STATE, own_ops.SET_STATE, (), layout)
    layout = lines.Layout(lines.DType.UINT8, lines.CPU, (own_ops.BYTES_OF_DEVICE,), (1,))
    return States(own_ops.GET_STATE_OF, own_ops.SET_STATE_OF, (device,), layout)
