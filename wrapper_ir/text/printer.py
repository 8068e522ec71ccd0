"""Printer of programs.

Each line of the program starts a line of text, so that a change of one line is one line in a diff.
Regions and kernel sources follow on lines of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import wrapper_ir.lines as ir
from wrapper_ir.lines.fields import as_program, misfits
from wrapper_ir.lines.traits import declares
from wrapper_ir.lines.visitor import LINES_ARE_CLOSED
from wrapper_ir.text.errors import UnprintableError
from wrapper_ir.text.item_print import ItemPrinter
from wrapper_ir.text.words import MAX_DEPTH, is_plain_schema, quote, source_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


# Lines of a program.


def first_line(items: ItemPrinter, line: ir.AnyLine) -> str:
    """Return the first line of a line's text: all of it, but for source code and regions."""
    if declares(line) and isinstance(line.source, ir.TorchOp):
        return _library_op(items, line, line.source)
    return items.show(line)


def _library_op(items: ItemPrinter, line: ir.KernelDefinition, source: ir.TorchOp) -> str:
    """Return the declaration of a library op. Its schema gives its name and its parameters."""
    refuse, schema = items.refuse, source.schema
    word = "method" if source.is_method else "extern"
    shown, what = f"{word} {quote(schema)}", f"the declaration of '{line.name}'"
    if not is_plain_schema(schema):
        return refuse(shown, what, "its schema is not one line of printable text")
    try:
        name = ir.parse_schema(schema).name
    except ir.SchemaError as error:
        return refuse(shown, what, error.message)
    if name != line.name:
        return refuse(shown, what, f"its schema belongs to '{name}'")
    return refuse(shown, what, "it has parameters") if line.params else f"{word} {schema}"


class TextLine(NamedTuple):
    """A line of text. ``path`` is the address of the program line that starts on it, if any."""

    text: str
    path: ir.Path | None = None


def print_program(
    program: ir.Program, *, origins: bool = False, strict: bool = True, values: str = ""
) -> str:
    """Return the program as text. :func:`wrapper_ir.parse` reads it back as an equal program.

    Args:
        program: The program.
        origins: True to include the origins of lines.
        strict: True to refuse what could not be parsed. Otherwise faulty names are quoted, and the
            text is for display only.
        values: The hash of the values that are saved beside the text, if any.

    Raises:
        UnprintableError: The text form cannot express the program.
    """
    lines = text_lines(program, origins=origins, strict=strict, values=values)
    return "".join([f"{line.text}\n" for line in lines])


def text_lines(
    program: ir.Program,
    *,
    origins: bool = False,
    strict: bool = True,
    paths: bool = False,
    values: str = "",
) -> Iterator[TextLine]:
    """Yield the lines of :func:`print_program`, with ``paths`` with the paths of program lines."""
    wrong = misfits(as_program(program, "wir.print_program"))
    if wrong:
        path, part, expected, found = wrong[0]
        raise UnprintableError(
            what=part or "a line",
            reason=f"it is {found}, but {expected} is needed",
            path=path,
            hint=None if part else LINES_ARE_CLOSED,
        )
    try:
        printer = _ProgramPrinter(program, origins=origins, strict=strict, paths=paths)
        yield from printer.lines(values)
    except RecursionError:
        raise UnprintableError(what="the program", reason="it is nested too deeply") from None


def print_line(line: ir.AnyLine, program: ir.Program) -> str:
    """Return the first line of a line's text, for messages. Refuses nothing."""
    return first_line(ItemPrinter(program, strict=False), line)


class _ProgramPrinter:
    """Printer of one program."""

    def __init__(self, program: ir.Program, *, origins: bool, strict: bool, paths: bool) -> None:
        self._program = program
        self._origins = program.origins if origins else ()
        self._show_origins = origins
        self._paths = paths
        self._strict = strict
        self._items = ItemPrinter(program, strict=strict)

    def lines(self, values: str) -> Iterator[TextLine]:
        """Yield all lines of the text. ``values`` is the hash of the values beside it."""
        yield from map(TextLine, self._head(values))
        yield from self._main()
        yield TextLine(self._items.returned("return", self._program.results))
        if self._origins:
            yield TextLine("")
            for index, origin in enumerate(self._origins):
                yield TextLine(f"#{index} = loc{self._items.show(origin)}")
        if self._program.folding is not None:
            yield from self._folding(self._program.folding)

    def _folding(self, folding: ir.Program) -> Iterator[TextLine]:
        """Yield the lines of the program that computes folded constants."""
        root = ir.FOLDING if self._paths else None
        yield from (TextLine(""), TextLine("folding", root))
        how = {"origins": self._show_origins, "strict": self._strict, "paths": self._paths}
        nested = _ProgramPrinter(folding, **how).lines(values="")
        next(nested)  # the version, which is that of the whole text
        for line in nested:
            yield (
                line
                if line.path is None
                else line._replace(path=ir.Path((*ir.FOLDING, *line.path)))
            )

    def _head(self, values: str) -> Iterator[str]:
        program, items = self._program, self._items
        name = items.identifier(program.name, "the program")
        yield f"wir {ir.SCHEMA_VERSION}"
        yield f"program @{name} {program.role.value} {program.stage.value}"
        if program.in_spec:
            yield f"in_spec {quote(program.in_spec)}"
        if program.out_spec:
            yield f"out_spec {quote(program.out_spec)}"
        if program.tangents:
            yield f"tangents [{', '.join(map(items.scalar, program.tangents))}]"
        if program.unread:
            yield f"unread {items.strings(program.unread)}"
        if values:
            yield f"values {quote(values)}"
        yield ""
        yield from self._named("symbol", items.symbol, program.symbols)
        for item in program.inputs:
            yield f"input {items.show(item)}"
        yield from self._named("constant", items.defined, program.constants)
        yield from self._named("object", items.object, program.objects)
        for word in ("stream", "event", "mempool"):
            for number, each in enumerate(getattr(program, f"{word}s"), start=1):
                yield f"{word} {number}{items.show(each)}"
        for stray in self._strays():
            yield f"buffer {items.defined(stray)}"

    def _named(
        self, word: str, shown: Callable[[str], str], table: Mapping[str, object]
    ) -> Iterator[str]:
        for name, each in table.items():
            yield f"{word} {shown(name)} {self._items.show(each)}"

    def _strays(self) -> list[str]:
        """Return buffers with a layout but no definition: a fault that the text can express."""
        buffers = self._program.buffers
        if not buffers:
            return []
        defined = set(self._program.constants)
        for _, _, region in ir.walk_regions(self._program):
            defined.update(_defined_in(region))
        return [name for name in buffers if name not in defined]

    def _main(self) -> Iterator[TextLine]:
        """Yield the body. Definitions start at the margin and are set apart by empty lines."""
        blank = TextLine("")
        before = "head"
        for index, line in enumerate(self._program.body):
            path = ir.Path().then("body", index) if self._paths else None
            kind = _kind(line)
            if kind == "kernel" or kind != before:
                yield blank
            before = kind
            yield from self._line(line, path, 1 if kind == "line" else 0)
        if before != "line":
            yield blank

    def _line(self, line: ir.AnyLine, path: ir.Path | None, depth: int) -> Iterator[TextLine]:
        indent = "  " * depth
        yield TextLine(indent + self._with_origin(line), path)
        if declares(line):
            if not isinstance(line.source, ir.TorchOp):
                for text in source_lines(line.source.code):
                    yield TextLine(f"{indent}  {text}")
            return
        for name, region in ir.regions_of(line):
            yield from self._region(name, region, path, depth + 1)

    def _with_origin(self, line: ir.AnyLine) -> str:
        text, origin = first_line(self._items, line), line.origin
        if origin is None or not 0 <= origin < len(self._origins):
            return text
        if text.startswith("//"):
            return f"//loc(#{origin}){text[2:]}"
        return f"{text} loc(#{origin})"

    def _region(
        self, name: str, region: ir.Region, parent: ir.Path | None, depth: int
    ) -> Iterator[TextLine]:
        if depth > 2 * MAX_DEPTH and self._strict:
            raise UnprintableError(
                what="a region", reason=f"it is nested deeper than {MAX_DEPTH}", path=parent
            )
        indent = "  " * depth
        params = ", ".join(map(self._items.show, region.params))
        yield TextLine(f"{indent}{name} ({params}) {{")
        for index, line in enumerate(region.body):
            path = None if parent is None else parent.then(name, index)
            yield from self._line(line, path, depth + 1)
        yield TextLine(f"{indent}  {self._items.returned('yield', region.results)}")
        yield TextLine(indent + "}")


def _kind(line: ir.AnyLine) -> str:
    if not declares(line):
        return "line"
    return "extern" if isinstance(line.source, ir.TorchOp) else "kernel"


def _defined_in(region: ir.Region) -> Iterator[str]:
    """Yield the buffers whose definition in the text includes their layout."""
    for item in region.params:
        if isinstance(item, ir.BufferInput):
            yield item.name
    for line in region.body:
        yield from ir.effects(line).defines
