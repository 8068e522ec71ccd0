"""Objects of custom classes that belong to a program: to its library they are inputs like others.

A library holds bytes of tensors; an object lives in the process. So the function of a library that
was loaded hands the program's objects on with each call, behind the inputs that the caller gives.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wrapper_ir.lines.control import ObjectInput
from wrapper_ir.lines.program import FrozenMap

if TYPE_CHECKING:
    from collections.abc import Callable

    from wrapper_ir.lines.program import Program

__all__ = ["check_objects", "objects_as_inputs", "with_objects"]


def objects_as_inputs(program: Program) -> Program:
    """The program with its objects as further inputs, the last ones."""
    if not program.objects:
        return program
    objects = (ObjectInput(name, item.class_name) for name, item in program.objects.items())
    return program.replace(inputs=(*program.inputs, *objects), objects=FrozenMap())


def check_objects(program: Program) -> None:
    """Look at the objects that a program brings.

    Raises:
        InputLayoutError: One is of another class, or no object.
    """
    from wrapper_ir.runtime import check_object  # noqa: PLC0415 - it imports torch

    for name, item in program.objects.items():
        check_object(program.data[name], name, item.class_name)


def with_objects(
    function: Any,  # noqa: ANN401 - a callable of one form or the other
    objects: Callable[[], tuple[Any, ...]],
    count: int,
    *,
    boxed: bool,
) -> Any:  # noqa: ANN401 - likewise
    """The function of a library, with objects handed on behind the inputs.

    Args:
        function: Takes both, as one list or one by one.
        objects: Gives the objects.
        count: How many inputs there are besides.
        boxed: Whether inputs come in a list, which is emptied.
    """

    def run_boxed(inputs: list[Any], **options: object) -> tuple[Any, ...]:
        _check(len(inputs))
        inputs.extend(objects())
        results: tuple[Any, ...] = function(inputs, **options)
        return results

    def run(*inputs: object, **options: object) -> tuple[Any, ...]:
        _check(len(inputs))
        results: tuple[Any, ...] = function(*inputs, *objects(), **options)
        return results

    def _check(got: int) -> None:
        if got != count:
            from wrapper_ir.runtime import InputCountError  # noqa: PLC0415 - as above

            raise InputCountError(expected=count, got=got)

    made: Any = run_boxed if boxed else run
    made.__name__ = made.__qualname__ = function.__name__
    made.__doc__ = function.__doc__
    made.release = function.release
    return made
