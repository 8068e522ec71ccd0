"""Arguments of library ops in the order of the schema, and what else Inductor calls like an op."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import sympy
import torch

from wrapper_ir.frontends.common.ops import SYMBOLIC, plain_argument
from wrapper_ir.frontends.inductor.compat import extern_kernels, ir
from wrapper_ir.frontends.inductor.convert.values import to_dtype
from wrapper_ir.frontends.inductor.errors import UnsupportedLineError
from wrapper_ir.lines.args import (
    Access,
    Arg,
    BufferArg,
    DTypeArg,
    ListArg,
    NamedArg,
    NoneArg,
    ObjectArg,
    ScalarArg,
)
from wrapper_ir.lines.control import ObjectInput
from wrapper_ir.lines.kernels import TorchOp
from wrapper_ir.lines.program import ObjectConstant
from wrapper_ir.runtime import class_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from wrapper_ir.frontends.inductor.convert.state import Scope
    from wrapper_ir.lines.layout import Layout


_NUMBERS: Final = (bool, int, float, complex, sympy.Basic)

#: Positional and named arguments.
Arguments = tuple[tuple[Arg, ...], tuple[NamedArg, ...]]


def bind_arguments(
    scope: Scope,
    op: torch._ops.OpOverload | Method,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    origin: int | None,
) -> Arguments:
    """Return the arguments of a call, each where the schema has it.

    Inductor passes some positional arguments by name, as ``convolution``'s; they are put in order,
    and defaults are filled in where something follows them.

    Raises:
        UnsupportedLineError: An argument has no place in the schema, or no form in the IR.
    """
    schema: Any = op._schema.arguments
    positional = [arg for arg in schema if not arg.kwarg_only]
    by_name = dict(kwargs)
    if len(args) > len(positional):
        raise _misfit(op, f"{len(args)} positional arguments, {len(positional)} in the schema")
    given = dict(zip((arg.name for arg in positional), args, strict=False))
    for arg in positional:
        if arg.name in by_name:
            given[arg.name] = by_name.pop(arg.name)
    access = _overwriting if op is torch.ops.aten.copy_.default else schema_access
    last = max((i for i, arg in enumerate(positional) if arg.name in given), default=-1)
    ordered = []
    for arg in positional[: last + 1]:
        value = given.get(arg.name, arg.default_value)
        ordered.append(_convert(scope, _plain_number(value, arg), access(arg), origin))
    named = []
    for arg in schema:
        if arg.kwarg_only and arg.name in by_name:
            value = _plain_number(by_name.pop(arg.name), arg)
            converted = _convert(scope, value, access(arg), origin)
            named.append((arg.name, converted))
    if by_name:
        raise _misfit(op, f"no argument called {', '.join(sorted(by_name))} in the schema")
    return tuple(ordered), tuple(named)


def schema_access(arg: Any) -> Access:
    """Return what an op does to an argument, by its schema: ``out`` arguments are overwritten."""
    info = arg.alias_info
    if info is None or not info.is_write:
        return Access.READ
    return Access.WRITE if arg.kwarg_only else Access.READ_WRITE


def _overwriting(arg: Any) -> Access:
    """Return the access of ``copy_``, whose schema does not say that it writes every element."""
    return Access.WRITE if arg.alias_info is not None else Access.READ


def _plain_number(value: Any, arg: Any) -> Any:
    """Return a number in the schema's type: torch takes True for an int, and 1 for a bool."""
    kind = arg.type.kind()
    if kind == "IntType" and isinstance(value, bool):
        return int(value)
    if kind == "BoolType" and isinstance(value, int):
        return bool(value)
    return value


def _misfit(op: torch._ops.OpOverload | Method, why: str) -> UnsupportedLineError:
    return UnsupportedLineError(kind="call of an op", text=str(op), why=why)


def is_tensor(value: Any) -> bool:
    """Return whether one of Inductor's values is a tensor."""
    return isinstance(value, (ir.MutableBox, ir.ReinterpretView, ir.Buffer))


def _convert(scope: Scope, value: Any, access: Access, origin: int | None) -> Arg:
    if isinstance(value, (list, tuple)):
        return ListArg(tuple(_convert(scope, item, access, origin) for item in value))
    if isinstance(value, BufferArg):  # a view that Inductor does not know
        return replace(value, access=access)
    if is_tensor(value):
        return BufferArg(scope.reference(value, origin), access)
    if isinstance(value, ir.TorchBindObject):
        return ObjectArg(convert_object(scope, value))
    return _plain(scope, value)


def _plain(scope: Scope, value: Any) -> Arg:
    """Return an argument that is no tensor."""
    if value is None or isinstance(value, ir.NoneAsConstantBuffer):
        return NoneArg()
    if isinstance(value, (*_NUMBERS, *SYMBOLIC)):
        return ScalarArg(scope.scalar(value))
    if isinstance(value, ir.ShapeAsConstantBuffer):
        return ScalarArg(scope.scalar(value.expr))
    if isinstance(value, torch.dtype):
        return DTypeArg(to_dtype(value))
    found = plain_argument(value)
    if found is not None:
        return found
    raise UnsupportedLineError(
        kind="argument of an op", text=type(value).__name__, why="the IR has no such argument"
    )


# Objects of custom classes, and calls of their methods.


_OTHER: Final = re.compile(r"[^A-Za-z0-9_]+", re.ASCII)


@dataclass(frozen=True)
class Method:
    """A method of a custom class, in the form that an op of torch's registry has.

    Attributes:
        class_name: The class, ``namespace::Class``.
        _schema: What torch knows of it, the object being the first argument.
    """

    class_name: str
    _schema: Any

    def name(self) -> str:
        """Return what calls name it: ``namespace::Class.method``."""
        return f"{self.class_name}.{self._schema.name}"

    @property
    def source(self) -> TorchOp:
        """Its declaration, under that name."""
        return TorchOp(f"{self.class_name}.{self._schema}", is_method=True)


def method_of(receiver: Any, name: str) -> Method:
    """Return the method of that name of one of Inductor's objects."""
    value = real_object(receiver.get_name(), receiver.get_value())
    return Method(class_of(value), value._get_method(name).schema)


def traced_object(value: Any) -> Any:
    """Return what Inductor has, or the object itself where it traced with another one."""
    return getattr(value, "real_obj", value)


def real_object(name: str, value: Any) -> torch.ScriptObject:
    """Return the object itself where Inductor has what it traced with.

    Raises:
        UnsupportedLineError: It is no object of a class in ``torch.classes``.
    """
    found = traced_object(value)
    if not class_of(found):
        raise UnsupportedLineError(
            kind="object",
            text=f"{name}: {type(found).__name__}",
            why="it is of no class that is registered with torch.classes",
        )
    return found  # type: ignore[no-any-return]  # only objects have a class


def object_input(scope: Scope, name: str, node: Any) -> ObjectInput:
    """Return the input that an object of Inductor's is.

    Raises:
        UnsupportedLineError: It is of no class that torch knows, or an input of a region.
    """
    if scope.is_region:
        raise _in_region(name)
    made = scope.objects[name] = scope.name(name)
    scope.draft.reserved.add(made)
    return ObjectInput(made, class_of(real_object(name, node.get_value())))


def convert_object(scope: Scope, node: Any) -> str:
    """Return the name of an object that is passed as an argument.

    Raises:
        UnsupportedLineError: It is of no class that torch knows, or used in a region.
    """
    name = node.get_name()
    if scope.is_region:
        raise _in_region(name)
    if name not in scope.objects:
        value = real_object(name, node.get_value())
        known = (n for n in scope.draft.names_of(value) if n in scope.draft.objects)
        made = next(known, "") or scope.draft.fresh(_OTHER.sub("_", name))
        scope.objects[name] = made
        scope.draft.reserved.add(made)
        scope.draft.objects[made] = ObjectConstant(class_of(value), name)
        scope.draft.hold(made, value)
    return scope.objects[name]


def _in_region(name: str) -> UnsupportedLineError:
    return UnsupportedLineError(
        kind="object", text=name, why="it is used inside a choice, a loop or another subgraph"
    )


# Python functions that Inductor calls like ops, where tuning chose them: what they call.
#
# Each is one of ``extern_kernels``. What it decides when it runs, by layouts, is decided here; what
# it asks a GPU or another library is not, and such a function has no form.


Call: TypeAlias = "tuple[Any, tuple[Any, ...], Mapping[str, Any]]"
"""An op, and its arguments: Inductor's nodes, or views that are made for the call."""

Function: TypeAlias = "Callable[[Scope, Any, Any], Iterator[Call]]"
"""Gives the calls of a function, of its node and of what it writes into."""


def function_of(node: Any) -> Function | None:
    """Return the form of the function that a node calls; None where it calls something else."""
    name = str(node.python_kernel_name).removeprefix("extern_kernels.")
    return (
        _FUNCTIONS.get(name) if node.op_overload is None and hasattr(extern_kernels, name) else None
    )


def _bias_addmm(scope: Scope, node: Any, out: Any) -> Iterator[Call]:
    """``addmm`` of one row that is added to all: with a vector, cuBLAS adds it on the way."""
    bias, *matrices = node.inputs
    name = scope.reference(bias)
    layout = scope.layout(name)
    if layout.stride[0] == 0 or layout.size[0] == 1:
        name = scope.relaid(name, _chosen(layout, range(1, layout.rank)))
    args = (BufferArg(name), *matrices)
    yield torch.ops.aten.addmm.out, args, {**node.kwargs, "out": out}


def _conv1x1_via_mm(scope: Scope, node: Any, out: Any) -> Iterator[Call]:
    """A convolution of single pixels: a product of matrices, channels last."""
    x, weight = (scope.reference(item) for item in node.inputs)
    views = (
        scope.relaid(x, _chosen(scope.layout(x), (0, 2, 3, 1))),
        scope.relaid(weight, _chosen(scope.layout(weight), (1, 0))),
    )
    result = scope.reference(out)
    result = scope.relaid(result, _chosen(scope.layout(result), (0, 2, 3, 1)))
    args = tuple(map(BufferArg, views))
    yield torch.ops.aten.matmul.out, args, {**node.kwargs, "out": BufferArg(result)}


def _scaled_mm_with_output_scale(scope: Scope, node: Any, out: Any) -> Iterator[Call]:
    """A product of scaled matrices, then its own scale."""
    *args, scale = node.inputs
    yield torch.ops.aten._scaled_mm.out, tuple(args), {**node.kwargs, "out": out}
    yield torch.ops.aten.mul.out, (out, scale), {"out": out}


def _chosen(layout: Layout, dims: Any) -> Layout:
    """Return the layout of a view that has these dimensions, in this order."""
    size = tuple(layout.size[dim] for dim in dims)
    return replace(layout, size=size, stride=tuple(layout.stride[dim] for dim in dims))


_FUNCTIONS: Final[Mapping[str, Function]] = {
    "bias_addmm": _bias_addmm,
    "conv1x1_via_mm": _conv1x1_via_mm,
    "scaled_mm_with_output_scale": _scaled_mm_with_output_scale,
}
