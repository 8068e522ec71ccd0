"""Printer of the parts of lines: names, layouts, arguments, results, parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import wrapper_ir.lines as ir
from wrapper_ir.lines.expr_printer import Level
from wrapper_ir.lines.schema import CLASS_NAME, QUALIFIED_OP_NAME
from wrapper_ir.text.assembly import SHOWERS
from wrapper_ir.text.errors import UnprintableError
from wrapper_ir.text.expressions import NOT_AN_IDENTIFIER, TextExprPrinter, symbol_text
from wrapper_ir.text.words import IDENTIFIER, MAX_DEPTH, quote

if TYPE_CHECKING:
    from collections.abc import Iterable


class ItemPrinter:
    """Printer of the parts of lines. If not strict, it quotes what could not be parsed."""

    def __init__(self, program: ir.Program, *, strict: bool = True) -> None:
        self.exprs = TextExprPrinter(program.symbols, strict=strict)
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
        return self.refuse(
            quote(name), f"the class {quote(name)}", "its name is not like namespace::Class"
        )

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
        return self.refuse(
            quote(name), f"the operator {quote(name)}", "its name is not like aten::add.Tensor"
        )

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
