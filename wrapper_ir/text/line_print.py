"""The lines of a program as text."""

from __future__ import annotations

from typing import Final

from wrapper_ir.lines import AnyLine, KernelDefinition, Program, SchemaError, TorchOp, parse_schema
from wrapper_ir.text.assembly import SHOWERS, Show
from wrapper_ir.text.escape import quote
from wrapper_ir.text.item_print import ItemPrinter
from wrapper_ir.text.words import is_plain_schema


class LinePrinter:
    """Prints the first, and mostly only, line of each line's text, as its class declares it."""

    def __init__(self, program: Program, *, origins: bool, strict: bool) -> None:
        self.items = ItemPrinter(program, strict=strict)
        self._origins = len(program.origins) if origins else 0

    def line(self, line: AnyLine) -> str:
        """The line with its origin."""
        text = self.visit(line)
        origin = line.origin
        if origin is None or not 0 <= origin < self._origins:
            return text
        if text.startswith("//"):
            return f"//loc(#{origin}){text[2:]}"
        return f"{text} loc(#{origin})"

    def visit(self, line: AnyLine) -> str:
        """The line by itself."""
        cls = type(line)
        return (_SHOWN.get(cls) or SHOWERS[cls])(self.items, line)


def _definition(items: ItemPrinter, line: KernelDefinition) -> str:
    """The text of a kernel, or of a library op: its schema says its name and its parameters."""
    source = line.source
    if not isinstance(source, TorchOp):
        return SHOWERS[KernelDefinition](items, line)
    refuse, schema = items.refuse, source.schema
    word = "method" if source.is_method else "extern"
    shown, what = f"{word} {quote(schema)}", f"the declaration of '{line.name}'"
    if not is_plain_schema(schema):
        return refuse(shown, what, "its schema is not one line of printable text")
    try:
        name = parse_schema(schema).name
    except SchemaError as error:
        return refuse(shown, what, error.message)
    if name != line.name:
        return refuse(shown, what, f"its schema is that of '{name}'")
    return refuse(shown, what, "it has parameters") if line.params else f"{word} {schema}"


#: What is not printed as its class declares it, or not always.
_SHOWN: Final[dict[type, Show]] = {KernelDefinition: _definition}
