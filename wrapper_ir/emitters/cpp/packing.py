"""The function that packs constants: a library holds them plain and packs them where it is loaded.

What oneDNN and MKL make of a weight depends on the processor and on the version of the library, so
it is made anew for each set of constants, by the op that made it first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wrapper_ir.emitters.cpp import literals
from wrapper_ir.emitters.cpp.text import UNIT, statement
from wrapper_ir.lines.args import Arg, BufferArg, ListArg, ScalarArg

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wrapper_ir.emitters.writer import CodeWriter
    from wrapper_ir.lines.program import Packing, Program


def has_packing(program: Program) -> bool:
    """Tell whether a library of the program packs constants."""
    return any(constant.packing is not None for constant in program.constants.values())


def write_packing(program: Program, writer: CodeWriter) -> None:
    """Writes the function ``pack`` of a program that packs constants; it calls ops."""
    indices = {name: index for index, name in enumerate(program.constants)}
    writer.blank()
    writer.line("// Packs a constant of others, in the form that its readers want.")
    head = "void pack(std::size_t index, const AtenTensorHandle* constants, wir::Tensor& packed) {"
    writer.lines(*statement(head))
    with writer.indent():
        writer.line("switch (index) {")
        with writer.indent():
            for name, constant in program.constants.items():
                if constant.packing is not None:
                    _case(indices[name], constant.packing, indices, writer)
        writer.line("}")
    writer.line("}")


def _case(index: int, packing: Packing, indices: Mapping[str, int], writer: CodeWriter) -> None:
    name, _, overload = packing.op.partition(".")
    writer.line(f"case {index}: {{")
    with writer.indent():
        op = f"{literals.string(name)}, {literals.string(overload)}"
        args = ", ".join(_argument(arg, indices) for arg in packing.args)
        target = "packed" if packing.position is None else f"{{packed, {packing.position}}}"
        for text in (f"static wir::Op op{{{op}}};", f"return op({{{args}}}, {{{target}}});"):
            writer.lines(*statement(text, len(UNIT) * 3))
    writer.line("}")


def _argument(arg: Arg, indices: Mapping[str, int]) -> str:
    match arg:
        case BufferArg(buffer=buffer):
            return f"constants[{indices[buffer]}]"
        case ListArg(items=items):
            return f"wir::Ints{{{', '.join(_argument(each, indices) for each in items)}}}"
        case ScalarArg(value=bool(value)):
            return "true" if value else "false"
        case ScalarArg(value=int(value)):
            return literals.integer(value)
        case ScalarArg(value=float(value)):
            return literals.real(value)
        case _:
            return "wir::none"
