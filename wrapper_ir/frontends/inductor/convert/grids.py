"""Grids of Triton kernels: from the words of Inductor's launcher to expressions of a program.

Inductor has one class for each kind of kernel that writes how many blocks it is launched over, as a
line of Python over the kernel's parameters. All of them use the same few operations. So the line is
worked out with our expressions in place of numbers, whatever kind it is of.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any, Final

import sympy

from wrapper_ir.lines import expr as ours

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from wrapper_ir.frontends.inductor.pinning import LaunchGrid
    from wrapper_ir.lines.expr import Dim

__all__ = ["UnknownGridError", "grid_of"]


class UnknownGridError(ValueError):
    """A grid uses an operation, or a name, that we do not know."""


def grid_of(grid: LaunchGrid, given: Callable[[str], Dim]) -> tuple[Dim, ...]:
    """Return one to three sizes; those at the end that are always 1 are left out.

    Args:
        grid: What Inductor's launcher would compute.
        given: Returns what is passed for a parameter, or raises ``KeyError``.

    Raises:
        UnknownGridError: It does more than we know.
    """
    steps: dict[str, Any] = {}

    def value(name: str) -> Any:
        try:
            return steps[name] if name in steps else given(name)
        except KeyError:
            raise UnknownGridError(f"it uses '{name}', which is not passed") from None

    for step in grid.steps:
        name, _, text = step.partition("=")
        steps[name.strip()] = _evaluate(text, value)
    sizes = [ours.dim(_evaluate(str(size), value)) for size in grid.sizes]
    while len(sizes) > 1 and sizes[-1] == 1:
        sizes.pop()
    return tuple(sizes)


def _evaluate(text: str, value: Callable[[str], Any]) -> Any:
    return _value(ast.parse(text.strip(), mode="eval").body, value)


def _value(node: ast.expr, value: Callable[[str], Any]) -> Any:
    match node:
        case ast.Constant(value=int(number)):
            return sympy.Integer(number)
        case ast.Name(id=name):
            return sympy.sympify(value(name))
        case ast.UnaryOp(
            op=ast.USub(),
            operand=ast.BinOp(
                left=left, op=ast.FloorDiv(), right=ast.UnaryOp(op=ast.USub(), operand=right)
            ),
        ):
            return ours.CeilDiv(_value(left, value), _divisor(_value(right, value)))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, value)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATIONS:
            return _OPERATIONS[type(op)](_value(left, value), _value(right, value))
        case ast.Call(func=ast.Name(id=name), args=args) if name in _FUNCTIONS:
            return _FUNCTIONS[name](*(_value(argument, value) for argument in args))
        case ast.IfExp(
            test=ast.Compare(left=left, ops=[ast.Eq()], comparators=[right]), body=body, orelse=rest
        ):
            condition = sympy.Eq(_value(left, value), _value(right, value))
            return ours.Where(condition, _value(body, value), _value(rest, value))
        case _:
            raise UnknownGridError(f"its grid is computed by '{ast.unparse(node)}'")


def _divisor(value: Any) -> Any:
    """Return what may be divided by: the number of blocks in a range without elements is 0."""
    return value if value.is_number else sympy.Max(1, value)


_OPERATIONS: Final[Mapping[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: lambda left, right: left + right,
    ast.Sub: lambda left, right: left - right,
    ast.Mult: lambda left, right: left * right,
    ast.FloorDiv: lambda left, right: ours.FloorDiv(left, _divisor(right)),
    ast.Mod: lambda left, right: ours.Mod(left, _divisor(right)),
    ast.Pow: lambda left, right: left**right,
}

_FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {"max": sympy.Max, "min": sympy.Min}
