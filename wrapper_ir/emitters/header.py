"""The head of an emitted text: the program's inputs, constants and results."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wrapper_ir.lines.args import BufferValue, NoneValue, Value
from wrapper_ir.lines.control import BufferInput, Input, ObjectInput, ScalarInput, input_name
from wrapper_ir.lines.layout import CPU, Layout

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from wrapper_ir.lines.program import Program


def header_title(program: Program, prose: Callable[[str], str]) -> str:
    """The first line; ``prose`` makes text from outside harmless in the target."""
    return f"Wrapper program {prose(program.name)}, {program.role.value}."


def header_lines(program: Program, prose: Callable[[str], str], indent: str) -> Iterator[str]:
    """The lists below the title, each after an empty line.

    Args:
        program: The program.
        prose: Makes text from outside harmless in the target's comments.
        indent: What stands before the rows of a list.
    """
    inputs = [(input_name(i), _input_type(program, i, prose)) for i in program.inputs]
    constants = [
        (name, f"{_type(program.layout(name), prose)}  {prose(constant.qualified_name)}".rstrip())
        for name, constant in program.constants.items()
    ]
    objects = [
        (name, f"{prose(item.class_name)}  {prose(item.qualified_name)}".rstrip())
        for name, item in program.objects.items()
    ]
    results = [(_result_name(v, prose), _result_type(program, v, prose)) for v in program.results]
    lists = {"Inputs": inputs, "Constants": constants, "Objects": objects, "Results": results}
    for heading, rows in lists.items():
        if rows:
            width = max(len(name) for name, _ in rows)
            yield ""
            yield f"{heading}:"
            yield from (f"{indent}{name:{width}}  {kind}".rstrip() for name, kind in rows)


def _input_type(program: Program, param: Input, prose: Callable[[str], str]) -> str:
    match param:
        case BufferInput():
            return _type(program.layout(param.name), prose) + (", donated" if param.donated else "")
        case ScalarInput():
            return program.symbols[param.symbol].kind.value
        case ObjectInput():
            return prose(param.class_name)


def _result_name(value: Value, prose: Callable[[str], str]) -> str:
    if isinstance(value, BufferValue):
        return value.buffer
    return "None" if isinstance(value, NoneValue) else prose(str(value.value))


def _result_type(program: Program, value: Value, prose: Callable[[str], str]) -> str:
    return _type(program.layout(value.buffer), prose) if isinstance(value, BufferValue) else ""


def _type(layout: Layout, prose: Callable[[str], str]) -> str:
    """``float32[4, 64]``, with strides and device where they are not the usual ones."""
    text = f"{layout.dtype.torch_name}[{', '.join(map(str, layout.size))}]"
    if not layout.is_contiguous:
        text += f" strides [{', '.join(map(str, layout.stride))}]"
    if layout.device != CPU:
        text += f" on {prose(str(layout.device))}"
    return text
