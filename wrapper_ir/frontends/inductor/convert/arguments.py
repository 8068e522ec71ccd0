"""Arguments of library ops: Inductor's values as ours, in the order of the op's schema."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import sympy
import torch

from wrapper_ir.frontends.common.ops import SYMBOLIC, plain_argument
from wrapper_ir.frontends.inductor.compat import ir
from wrapper_ir.frontends.inductor.convert.objects import Method, convert_object
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

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wrapper_ir.frontends.inductor.convert.state import Scope

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
