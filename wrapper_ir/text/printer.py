"""Printer of programs, and of the parts of lines.

Each line of the program starts a line of text, so that a change of one line is one line in a diff.
Regions and kernel sources follow on lines of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import wrapper_ir.lines as ir
from wrapper_ir.lines.expr_printer import Level
from wrapper_ir.lines.fields import as_program, misfits
from wrapper_ir.lines.schema import CLASS_NAME, QUALIFIED_OP_NAME
from wrapper_ir.lines.traits import declares
from wrapper_ir.lines.visitor import LINES_ARE_CLOSED
from wrapper_ir.text.assembly import SHOWERS
from wrapper_ir.text.errors import UnprintableError
from wrapper_ir.text.expressions import NOT_AN_IDENTIFIER, TextExprPrinter, symbol_text
from wrapper_ir.text.words import IDENTIFIER, MAX_DEPTH, is_plain_schema, quote, source_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping


class ItemPrinter:
    """Printer of the parts of lines. If not strict, it quotes what could not be parsed."""

    def __init__(self, program: ir.Program, *, strict: bool = True) -> None:
        self.exprs: TextExprPrinter = TextExprPrinter(program.symbols, strict=strict)
        self._layouts = program.buffers
        self._strict = strict
        self._names: dict[str, str] = {}
        self._depth = 0
        self._layout_texts: dict[ir.Layout, str] = {}

    def buffer(self, name: str) -> str:
        """Return ``%name``."""
        text = self._names.get(name)
        if text is None:
            text = self._names[name] = "%" + self.identifier(name, "the buffer")
        return text

    def object(self, name: str) -> str:
        """Return ``&name``."""
        return "&" + self.identifier(name, "the object")

    def class_name(self, name: str) -> str:
        """Return ``namespace::Class``."""
        if CLASS_NAME.fullmatch(name):
            return name
        shown, why = quote(name), "its name is not like namespace::Class"
        return self.refuse(shown, f"the class {shown}", why)

    def kernel(self, name: str) -> str:
        """Return ``@name``."""
        return "@" + self.identifier(name, "the kernel")

    def symbol(self, name: str) -> str:
        """Return the name of a symbol, with a dollar sign if it is a keyword."""
        return symbol_text(name, strict=self._strict)

    def identifier(self, name: str, what: str) -> str:
        """Return a name, which must be an identifier."""
        if IDENTIFIER.fullmatch(name):
            return name
        return self.refuse(quote(name), f"{what} {quote(name)}", NOT_AN_IDENTIFIER)

    def op(self, name: str) -> str:
        """Return ``namespace::name.overload``."""
        if QUALIFIED_OP_NAME.fullmatch(name):
            return name
        shown, why = quote(name), "its name is not like aten::add.Tensor"
        return self.refuse(shown, f"the operator {shown}", why)

    def refuse(self, shown: str, what: str, reason: str) -> str:
        """Raise if printing is strict; otherwise return ``shown``."""
        if self._strict:
            raise UnprintableError(what=what, reason=reason)
        return shown

    def scalar(self, value: ir.Scalar) -> str:
        """Return a number or expression."""
        return str(value) if type(value) is int and -1e9 < value < 1e9 else self.exprs.print(value)

    def scalars(self, values: Iterable[ir.Scalar]) -> str:
        """Return comma-separated numbers or expressions."""
        return ", ".join(map(self.scalar, values))

    def numbers(self, values: Iterable[ir.Scalar]) -> str:
        """Return numbers or expressions in square brackets."""
        return f"[{self.scalars(values)}]"

    def strings(self, values: Iterable[str]) -> str:
        """Return strings in square brackets."""
        return f"[{', '.join(map(quote, values))}]"

    def device(self, device: ir.Device) -> str:
        """Return ``@cuda:0``."""
        if device.index is not None and device.index < 0:
            return self.refuse(f"@{device}", f"the device '{device}'", "its index is negative")
        kind = self.identifier(device.type, "the device type")
        return f"@{kind}" if device.index is None else f"@{kind}:{device.index}"

    def layout(self, layout: ir.Layout) -> str:
        """Return ``f32[s0, 64]{1, s0}+8 @cuda:0``, without row-major strides and offset 0."""
        text = self._layout_texts.get(layout)
        if text is None:
            text = self._layout_texts[layout] = self._layout(layout)
        return text

    def _layout(self, layout: ir.Layout) -> str:
        text = f"{layout.dtype.short}[{self.scalars(layout.size)}]"
        if layout.stride != ir.contiguous_strides(layout.size):
            text += f"{{{self.scalars(layout.stride)}}}"
        if layout.offset != 0:
            text += f"+{self.exprs.print(layout.offset, Level.ATOM)}"
        if layout.kind is not ir.LayoutKind.STRIDED:
            text += f" {layout.kind.value}"
        return f"{text} {self.device(layout.device)}"

    def layout_of(self, name: str) -> str:
        """Return the layout of a buffer; ``?`` if the program has none."""
        layout = self._layouts.get(name)
        return "?" if layout is None else self.layout(layout)

    def defined(self, name: str) -> str:
        """Return ``%name : layout``."""
        return f"{self.buffer(name)} : {self.layout_of(name)}"

    def arg_list(self, items: tuple[ir.Arg, ...]) -> str:
        """Return arguments in square brackets."""
        if self._depth >= MAX_DEPTH:
            self.refuse("", "a list", f"it is nested deeper than {MAX_DEPTH}")
        self._depth += 1
        text = ", ".join(map(self.show, items))
        self._depth -= 1
        return f"[{text}]"

    def args(self, args: tuple[ir.Arg, ...], kwargs: tuple[ir.NamedArg, ...] = ()) -> str:
        """Return arguments in parentheses, keyword arguments last."""
        texts = list(map(self.show, args))
        for name, arg in kwargs:
            texts.append(f"{self.identifier(name, 'the argument')}={self.show(arg)}")
        return f"({', '.join(texts)})"

    def names(self, buffers: Iterable[str]) -> str:
        """Return buffers in parentheses."""
        return self.mixed(buffers, ())

    def mixed(self, buffers: Iterable[str], scalars: Iterable[ir.Scalar]) -> str:
        """Return buffers, then numbers, in parentheses."""
        return f"({', '.join([*map(self.buffer, buffers), *map(self.scalar, scalars)])})"

    def targets(self, results: tuple[ir.OpResult, ...]) -> str:
        """Return the left side of a call: ``%a`` or ``(%a, u0)``."""
        names = list(map(self._target, results))
        return names[0] if len(names) == 1 else f"({', '.join(names)})"

    def _target(self, result: ir.OpResult) -> str:
        match result:
            case ir.ResultBuffer():
                return self.buffer(result.out)
            case ir.ResultSymbol():
                return self.symbol(result.symbol)
            case ir.ResultObject():
                return self.object(result.object)

    def result_types(self, results: tuple[ir.OpResult, ...]) -> str:
        """Return the result types of a call: ``type`` or ``(type, type)``."""
        if len(results) == 1:
            return self._result(results[0], ())
        types = [self._result(result, (index,)) for index, result in enumerate(results)]
        return f"({', '.join(types)})"

    def _result(self, result: ir.OpResult, usual_path: tuple[int | str, ...]) -> str:
        if isinstance(result, ir.ResultSymbol):
            text = "symbol"
        elif isinstance(result, ir.ResultObject):
            text = self.class_name(result.class_name)
        else:
            text = self.layout_of(result.out)
            if result.relation is not ir.Relation.FRESH or result.of:
                text += f" {result.relation.value}"
            if result.relation in (ir.Relation.ALIAS, ir.Relation.MAY_ALIAS) or result.of:
                text += f"({', '.join(map(self.buffer, result.of))})"
        if result.path == usual_path:
            return text
        steps = [quote(s) if isinstance(s, str) else self.scalar(s) for s in result.path]
        return f"{text} at [{', '.join(steps)}]"

    def returned(self, word: str, values: tuple[ir.Value, ...]) -> str:
        """Return ``return %a, s0, none``."""
        return f"{word} {', '.join(map(self.show, values))}" if values else word

    def show(self, item: Any) -> str:  # noqa: ANN401 - of any class that declares its text
        """Return the text of an item: an argument, an input, a result, a declaration."""
        return SHOWERS[type(item)](self, item)

    def param(self, param: ir.Param) -> str:
        """Return ``name: in f32`` or ``name: i64``."""
        name = self.identifier(param.name, "the parameter")
        match param:
            case ir.BufferParam():
                return f"{name}: {param.access.word} {param.dtype.short}"
            case ir.ScalarParam():
                return f"{name}: {param.type.value}"

    def params(self, params: tuple[ir.Param, ...]) -> str:
        """Return the parameters of a kernel in parentheses."""
        return f"({', '.join(map(self.param, params))})"

    def range(self, lower: int | None, upper: int | None) -> str:
        """Return ``[0, inf]``; empty if the range is unbounded."""
        if lower is None and upper is None:
            return ""
        least = "-inf" if lower is None else self.scalar(lower)
        return f" [{least}, {'inf' if upper is None else self.scalar(upper)}]"

    def packing(self, packing: ir.Packing) -> str:
        """Return how a constant is packed: ``ns::op(args)[1]``."""
        text = self.op(packing.op) + self.args(packing.args)
        return text if packing.position is None else f"{text}[{packing.position}]"

    def frames(self, frames: Iterable[ir.Frame]) -> str:
        """Return ``at "file.py":12`` for each frame."""
        return "".join(map(self.show, frames))

    def table(self, rows: Iterable[tuple[str, ir.Scalar | str | None]]) -> str:
        """Return ``{key: value, ...}``."""
        return "{" + ", ".join(f"{self.key(key)}: {self._entry(v)}" for key, v in rows) + "}"

    def _entry(self, value: ir.Scalar | str | None) -> str:
        if value is None:
            return "none"
        return quote(value) if isinstance(value, str) else self.scalar(value)

    def key(self, name: str) -> str:
        """Return a key of a table, quoted unless it is an identifier."""
        return name if IDENTIFIER.fullmatch(name) else quote(name)


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
        reason = f"it is {found}, but {expected} is needed"
        hint = None if part else LINES_ARE_CLOSED
        raise UnprintableError(what=part or "a line", reason=reason, path=path, hint=hint)
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
            path = None if line.path is None else ir.Path((*ir.FOLDING, *line.path))
            yield line._replace(path=path)

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
            reason = f"it is nested deeper than {MAX_DEPTH}"
            raise UnprintableError(what="a region", reason=reason, path=parent)
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
