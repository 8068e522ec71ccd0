"""Parser of the parts of lines: layouts, arguments, results, parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, Protocol, TypeAlias

import wrapper_ir.lines as ir
from wrapper_ir.text.assembly import READERS, Choices
from wrapper_ir.text.errors import ConflictTextError, NestingTextError, NumberTextError
from wrapper_ir.text.tokens import Cursor, bracketed, listed
from wrapper_ir.text.words import DTYPES, MAX_DEPTH, RELATIONS, SCALAR_TYPES

if TYPE_CHECKING:
    from wrapper_ir.text.expressions import ExprParser

TargetKind: TypeAlias = Literal["buffer", "symbol", "object"]

#: A name on the left side of ``=``, and its kind.
Target: TypeAlias = tuple[str, TargetKind]

_ACCESS: Final = {access.word: access for access in ir.Access}
_KINDS: Final = {kind.value: kind for kind in ir.LayoutKind if kind is not ir.LayoutKind.STRIDED}

_ARGS: Final = Choices.of(ir.Arg)
_VALUES: Final = Choices.of(ir.Value)
_INPUTS: Final = Choices.of(ir.Input)


class Lines(Protocol):
    """Reader of the parts of a line that have lines of their own."""

    def code(self, cursor: Cursor) -> str:
        """Read the source of a kernel."""

    def regions(self, block: str, *, many: bool) -> ir.Region | tuple[ir.Region, ...]:
        """Read a region, or with ``many`` all that follow."""


class ItemParser:
    """Parser of the parts of lines. Collects the layouts of the buffers that lines define."""

    lines: Lines
    """The parser of lines, which enters itself here."""

    def __init__(self, exprs: ExprParser) -> None:
        self.exprs: ExprParser = exprs
        self.buffers: dict[str, ir.Layout] = {}
        self._layouts: dict[str, ir.Layout] = {}
        self._devices: dict[str, ir.Device] = {}
        #: A cache of arguments that are one token, by token.
        self._args: dict[str, ir.Arg] = {}
        self._depth = 0

    def integer(self, cursor: Cursor, what: str) -> int:
        """Read a literal integer."""
        start = cursor.at
        value = self.exprs.scalar(cursor)
        if type(value) is not int:
            cursor.fail(f"{what} must be a literal integer", NumberTextError, at=start)
        return value

    def device(self, cursor: Cursor) -> ir.Device:
        """Read ``@cuda:0``."""
        token = cursor.tokens[cursor.at]
        device = self._devices.get(token)
        if device is None:
            if token[:1] != "@" or len(token) == 1:
                cursor.fail_expecting("a device such as @cpu")
            kind, _, index = token[1:].partition(":")
            if len(index) > 9:
                cursor.fail("the device index is too large", NumberTextError)
            device = self._devices[token] = ir.Device(kind, int(index) if index else None)
        cursor.at += 1
        return device

    def layout(self, cursor: Cursor) -> ir.Layout | None:
        """Read a layout; ``None`` for ``?``. Equal texts return the same object."""
        if cursor.accept("?"):
            return None
        tokens, start = cursor.tokens, cursor.at
        end = start
        while tokens[end] and tokens[end][0] != "@":
            end += 1
        key = " ".join(tokens[start : end + 1])
        layout = self._layouts.get(key)
        if layout is not None:
            cursor.at = end + 1
            return layout
        layout = self._layout(cursor)
        if cursor.at == end + 1:
            self._layouts[key] = layout
        return layout

    def _layout(self, cursor: Cursor) -> ir.Layout:
        dtype = cursor.word(DTYPES, "an element type")
        size = self.dims(cursor)
        strides = ir.contiguous_strides(size)
        if cursor.next == "{":
            strides = bracketed(cursor, "{}", self.exprs.dim)
        offset = self.exprs.dim(cursor) if cursor.accept("+") else 0
        kind: ir.LayoutKind | ir.OpaqueKind
        if cursor.accept("opaque"):
            kind = ir.OpaqueKind(cursor.identifier("the name of a layout"))
        else:
            words = (kind for word, kind in _KINDS.items() if cursor.accept(word))
            kind = next(words, ir.LayoutKind.STRIDED)
        device = self.device(cursor)
        return ir.Layout(dtype, device, size, strides, offset, kind)

    def define(self, cursor: Cursor, name: str) -> None:
        """Read the layout of a buffer and record it."""
        start = cursor.at
        layout = self.layout(cursor)
        if layout is None:
            return
        known = self.buffers.setdefault(name, layout)
        if known is not layout and known != layout:
            reason = f"the buffer '%{name}' already has a different layout"
            cursor.fail(reason, ConflictTextError, at=start)

    def arg(self, cursor: Cursor) -> ir.Arg:
        """Read an argument."""
        token = cursor.tokens[cursor.at]
        found = self._args.get(token)
        if found is not None:
            cursor.at += 1
            return found
        at = cursor.at
        read = _ARGS.by_sign.get(token[:1])
        arg: ir.Arg = _ARGS.read_word(self, cursor) if read is None else read(self, cursor, None)
        if read is not None and cursor.at == at + 1:
            self._args[token] = arg
        return arg

    def arg_list(self, cursor: Cursor) -> tuple[ir.Arg, ...]:
        """Read arguments in square brackets."""
        if self._depth >= MAX_DEPTH:
            cursor.fail(f"a list is nested deeper than {MAX_DEPTH}", NestingTextError)
        self._depth += 1
        found = bracketed(cursor, "[]", self.arg)
        self._depth -= 1
        return found

    def args(self, cursor: Cursor) -> tuple[ir.Arg, ...]:
        """Read arguments in parentheses."""
        return bracketed(cursor, "()", self.arg)

    def names(self, cursor: Cursor) -> tuple[str, ...]:
        """Read buffers in parentheses."""
        return bracketed(cursor, "()", lambda inner: inner.buffer())

    def all_args(self, cursor: Cursor) -> tuple[tuple[ir.Arg, ...], tuple[ir.NamedArg, ...]]:
        """Read arguments in parentheses, keyword arguments last."""
        cursor.expect("(")
        args: list[ir.Arg] = []
        kwargs: list[ir.NamedArg] = []
        for _ in listed(cursor, ")"):
            if cursor.tokens[cursor.at + 1] == "=":
                name = cursor.identifier("the name of an argument")
                cursor.at += 1
                kwargs.append((name, self.arg(cursor)))
            elif kwargs:
                cursor.fail("a positional argument follows a keyword argument")
            else:
                args.append(self.arg(cursor))
        return tuple(args), tuple(kwargs)

    def mixed(self, cursor: Cursor) -> tuple[tuple[str, ...], tuple[ir.Scalar, ...]]:
        """Read buffers, then numbers, in parentheses."""
        cursor.expect("(")
        buffers: list[str] = []
        scalars: list[ir.Scalar] = []
        for _ in listed(cursor, ")"):
            if cursor.next[:1] != "%":
                scalars.append(self.exprs.scalar(cursor))
            elif scalars:
                cursor.fail("the buffers of a probe must come before its numbers")
            else:
                buffers.append(cursor.buffer())
        return tuple(buffers), tuple(scalars)

    def region_results(self, cursor: Cursor, targets: list[Target]) -> tuple[ir.CallResult, ...]:
        """Read the result types of a line with regions, which cannot be objects."""
        found = self.results(cursor, targets)
        results = tuple(result for result in found if not isinstance(result, ir.ResultObject))
        if len(results) < len(found):
            cursor.fail("regions cannot return objects", at=0)
        return results

    def results(self, cursor: Cursor, targets: list[Target]) -> tuple[ir.OpResult, ...]:
        """Read the result types of a call and join them with the names on its left side."""
        if not targets:
            return ()
        cursor.expect(":")
        if len(targets) == 1:
            return (self._result(cursor, targets[0], ()),)
        cursor.expect("(")
        found: list[ir.OpResult] = []
        for index, target in enumerate(targets):
            if index:
                cursor.expect(",")
            found.append(self._result(cursor, target, (index,)))
        cursor.expect(")")
        return tuple(found)

    def _result(self, cursor: Cursor, target: Target, usual: tuple[int | str, ...]) -> ir.OpResult:
        name, kind = target
        if kind == "symbol":
            cursor.expect("symbol")
            return ir.ResultSymbol(name, self._path(cursor, usual))
        if kind == "object":
            return ir.ResultObject(name, cursor.class_name(), self._path(cursor, usual))
        self.define(cursor, name)
        relation = ir.Relation.FRESH
        of: tuple[str, ...] = ()
        if cursor.tokens[cursor.at] in RELATIONS:
            relation = RELATIONS[cursor.take()]
            if relation is not ir.Relation.HELD or cursor.next == "(":
                of = bracketed(cursor, "()", Cursor.buffer)
        return ir.ResultBuffer(name, self._path(cursor, usual), relation, of)

    def _path(self, cursor: Cursor, usual_path: tuple[int | str, ...]) -> tuple[int | str, ...]:
        if not cursor.accept("at"):
            return usual_path
        return bracketed(cursor, "[]", self._step)

    def _step(self, cursor: Cursor) -> int | str:
        if cursor.tokens[cursor.at][:1] == '"':
            return cursor.string("a string")
        return self.integer(cursor, "a step of a path")

    def values(self, cursor: Cursor) -> tuple[ir.Value, ...]:
        """Read the results of a program or region, up to the end of the line."""
        if not cursor.next:
            return ()
        found = [self._value(cursor)]
        while cursor.accept(","):
            found.append(self._value(cursor))
        return tuple(found)

    def _value(self, cursor: Cursor) -> ir.Value:
        value: ir.Value = _VALUES.read(self, cursor)
        return value

    def input(self, cursor: Cursor) -> ir.Input:
        """Read an input of a program or a parameter of a region."""
        item: ir.Input = _INPUTS.read(self, cursor)
        return item

    def inputs(self, cursor: Cursor) -> tuple[ir.Input, ...]:
        """Read the parameters of a region in parentheses."""
        return bracketed(cursor, "()", self.input)

    def params(self, cursor: Cursor) -> tuple[ir.Param, ...]:
        """Read the parameters of a kernel in parentheses."""
        return bracketed(cursor, "()", self._param)

    def _param(self, cursor: Cursor) -> ir.Param:
        name = cursor.identifier("the name of a parameter")
        cursor.expect(":")
        access = _ACCESS.get(cursor.next)
        if access is None:
            type_ = cursor.word(SCALAR_TYPES, "a type of a number, or 'in', 'out'")
            return ir.ScalarParam(name, type_)
        cursor.at += 1
        return ir.BufferParam(name, cursor.word(DTYPES, "an element type"), access)

    def integers(self, cursor: Cursor, what: str) -> tuple[int, ...]:
        """Read literal integers in square brackets."""
        return bracketed(cursor, "[]", lambda cursor: self.integer(cursor, what))

    def dims(self, cursor: Cursor) -> tuple[ir.Dim, ...]:
        """Read integer-valued expressions in square brackets."""
        return bracketed(cursor, "[]", self.exprs.dim)

    def passed(self, cursor: Cursor, word: str) -> tuple[ir.Arg, ...]:
        """Read arguments after an optional keyword, which requires at least one."""
        at = cursor.at
        found = self.args(cursor)
        if not found:
            cursor.fail(f"leave out '{word} ()' if there are no arguments", at=at)
        return found

    def range(self, cursor: Cursor) -> tuple[int | None, int | None]:
        """Read a range such as ``[0, inf]``; if absent, both ends are open."""
        if not cursor.accept("["):
            return None, None
        lower: int | None = None
        if cursor.next == "-" and cursor.tokens[cursor.at + 1] == "inf":
            cursor.at += 2
        else:
            lower = self.integer(cursor, "a bound, unless -inf,")
        cursor.expect(",")
        is_open = cursor.accept("inf")
        upper = None if is_open else self.integer(cursor, "a bound, unless inf,")
        cursor.expect("]")
        return lower, upper

    def packing(self, cursor: Cursor) -> ir.Packing:
        """Read how a constant is packed: ``ns::op(args)[1]``."""
        op, args, position = cursor.op("the op that packs it"), self.args(cursor), None
        if cursor.accept("["):
            position = self.integer(cursor, "which of a list")
            cursor.expect("]")
        return ir.Packing(op, args, position)

    def frames(self, cursor: Cursor) -> tuple[ir.Frame, ...]:
        """Read any number of frames such as ``at "file.py":12``."""
        found: list[ir.Frame] = []
        while cursor.next == "at":
            found.append(READERS[ir.Frame](self, cursor, None))
        return tuple(found)

    def strings(self, cursor: Cursor, what: str) -> tuple[str, ...]:
        """Read strings in square brackets."""
        return bracketed(cursor, "[]", lambda cursor: cursor.string(what))

    def table(self, cursor: Cursor) -> tuple[tuple[str, ir.Scalar | str | None], ...]:
        """Read ``{key: value, ...}``."""
        return bracketed(cursor, "{}", self._row)

    def selector(self, cursor: Cursor, what: str) -> ir.BufferArg | ir.ScalarArg:
        """Read an argument that is a buffer or a number."""
        at = cursor.at
        found = self.arg(cursor)
        if not isinstance(found, (ir.BufferArg, ir.ScalarArg)):
            cursor.fail(f"{what} must be a buffer or a number", at=at)
        return found

    def types(self, cursor: Cursor) -> tuple[tuple[str, str], ...]:
        """Read the types of a signature."""
        at = cursor.at - 1
        rows = self.table(cursor)
        types = tuple([(key, value) for key, value in rows if isinstance(value, str)])
        if len(types) != len(rows):
            cursor.fail("the types of a signature must be strings", at=at)
        return types

    def options(self, cursor: Cursor) -> tuple[tuple[str, ir.Scalar | str], ...]:
        """Read the options of a kernel."""
        at = cursor.at - 1
        rows = self.table(cursor)
        options = tuple([(key, value) for key, value in rows if value is not None])
        if len(options) != len(rows):
            cursor.fail("an option cannot be none", at=at)
        return options

    def _row(self, cursor: Cursor) -> tuple[str, ir.Scalar | str | None]:
        is_quoted = cursor.next[:1] == '"'
        key = cursor.string("a key") if is_quoted else cursor.identifier("a key")
        cursor.expect(":")
        if cursor.next[:1] == '"':
            return key, cursor.string("a value")
        return key, None if cursor.accept("none") else self.exprs.scalar(cursor)
