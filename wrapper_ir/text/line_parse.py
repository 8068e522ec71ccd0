"""Reading the lines of a body."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias

from wrapper_ir.lines import (
    Allocate,
    AllocateFromPool,
    AllocatePool,
    AnyLine,
    Arg,
    AssertLayout,
    AssertSymbol,
    BindSymbol,
    BufferArg,
    CallResult,
    Comment,
    ComputeSymbol,
    Cond,
    CppKernel,
    ExternKernel,
    Free,
    ItemOf,
    KernelCall,
    KernelDefinition,
    KernelSource,
    MemoryKind,
    Probe,
    RecordEvent,
    Region,
    Reinterpret,
    Reuse,
    Scalar,
    ScalarArg,
    SchemaError,
    SizeOf,
    StorageOffsetOf,
    StrideOf,
    Switch,
    SymbolSource,
    Synchronize,
    TorchOp,
    TritonKernel,
    WaitEvent,
    While,
    parse_schema,
)
from wrapper_ir.text.errors import NestingTextError, SchemaTextError, StringTextError
from wrapper_ir.text.escape import EscapeError, read_source_line, unescape
from wrapper_ir.text.item_parse import ItemParser, Target, listed
from wrapper_ir.text.tokens import Cursor
from wrapper_ir.text.words import LEVELS, MAX_DEPTH, MEMORY_KINDS, SIDES, is_plain_schema

if TYPE_CHECKING:
    from wrapper_ir.text.reader import Reader

_COMMENT: Final = re.compile(r"[ \t]*//(?:loc\(\#(\d{1,9})\))?(?: (.*)|)", re.ASCII)
_DEFAULT_CPP: Final = CppKernel("")
_DEFAULT_TRITON: Final = TritonKernel("", "")

Maker: TypeAlias = Callable[[Cursor, str], AnyLine]
Statement: TypeAlias = Callable[[Cursor], AnyLine]
Nest: TypeAlias = Callable[[Cursor, list[Target]], AnyLine]


class LineParser:
    """Reads one line of a body, with the lines of text that belong to it."""

    def __init__(self, items: ItemParser, reader: Reader) -> None:
        self.items = items
        self.reader = reader
        self._depth = 0
        self._buffers: dict[str, Maker] = {
            "allocate": self._allocate,
            "allocate_pool": self._allocate_pool,
            "allocate_from_pool": self._allocate_from_pool,
            "reinterpret": self._reinterpret,
            "reuse": self._reuse,
        }
        self._symbols: dict[str, Maker] = {
            "size": self._bind,
            "stride": self._bind,
            "storage_offset": self._bind,
            "item": self._bind,
            "compute": self._compute,
        }
        self._statements: dict[str, Statement] = {
            "free": self._free,
            "call": self._call,
            "assert": self._assert,
            "assert_layout": self._assert_layout,
            "probe": self._probe,
            "record_event": self._record_event,
            "wait_event": self._wait_event,
            "synchronize": self._synchronize,
            "kernel": self._kernel,
            "extern": self._extern,
            "method": self._method,
        }
        self._nesting: dict[str, Nest] = {
            "cond": self._cond,
            "switch": self._switch,
            "while": self._while,
        }

    def comment(self, cursor: Cursor) -> Comment:
        """Reads ``// text``."""
        found = _COMMENT.fullmatch(cursor.text)
        if found is None:
            cursor.fail("a space is expected after '//'")
        origin = None if found[1] is None else self.reader.origin(int(found[1]))
        try:
            return Comment(unescape(found[2] or ""), origin=origin)
        except EscapeError as error:
            place = cursor.place(found.start(2) + error.position + 1)
            raise StringTextError(reason=str(error), place=place) from None

    def line(self, cursor: Cursor) -> AnyLine:
        """Reads any line but a comment."""
        cursor.take_origin(self.reader.origin)
        tokens = cursor.tokens
        first = tokens[0]
        if first == "(" or tokens[1] == "=":
            line = self._definition(cursor)
        elif first in self._statements:
            cursor.at = 1
            line = self._statements[first](cursor)
        elif first in self._nesting or _is_op(first):
            line = self._called(cursor, [])
        elif first[0] == "|":
            cursor.fail("lines of source follow a 'kernel' line")
        else:
            words = (*self._statements, *self._buffers, *self._symbols, *self._nesting, "return")
            cursor.fail_word(words, "the start of a line")
        cursor.end()
        return line

    def _definition(self, cursor: Cursor) -> AnyLine:
        targets = self._targets(cursor)
        cursor.expect("=")
        word = cursor.next
        if word in self._buffers:
            name, kind = targets[0]
            if len(targets) > 1 or kind != "buffer":
                cursor.fail(f"'{word}' defines one buffer", at=0)
            cursor.at += 1
            return self._buffers[word](cursor, name)
        if word in self._symbols:
            name, kind = targets[0]
            if len(targets) > 1 or kind != "symbol":
                cursor.fail(f"'{word}' defines one symbol", at=0)
            return self._symbols[word](cursor, name)
        return self._called(cursor, targets)

    def _targets(self, cursor: Cursor) -> list[Target]:
        if not cursor.accept("("):
            return [self._target(cursor)]
        found = [self._target(cursor) for _ in listed(cursor, ")")]
        if not found:
            cursor.fail("empty brackets define nothing", at=0)
        return found

    def _target(self, cursor: Cursor) -> Target:
        if cursor.next[:1] == "%":
            return cursor.buffer(), "buffer"
        if cursor.next[:1] == "&":
            return cursor.object(), "object"
        return cursor.symbol(), "symbol"

    def _called(self, cursor: Cursor, targets: list[Target]) -> AnyLine:
        word = cursor.next
        if word in self._nesting:
            cursor.at += 1
            return self._nesting[word](cursor, targets)
        if not _is_op(word):
            words = (*self._buffers, *self._symbols, *self._nesting)
            cursor.fail_word(words, "an operator such as aten::relu, or what defines a value")
        cursor.at += 1
        args, kwargs = self.items.all_args(cursor)
        device, stream = self.items.place(cursor)
        mempool = self.items.number(cursor, "mempool")
        results = self.items.results(cursor, targets)
        return ExternKernel(
            word, args, kwargs, results, device, stream, mempool, origin=cursor.origin
        )

    def _typed(self, cursor: Cursor, name: str) -> str:
        cursor.expect(":")
        self.items.define(cursor, name)
        return name

    def _memory(self, cursor: Cursor) -> MemoryKind:
        found = MEMORY_KINDS.get(cursor.next)
        if found is None:
            return MemoryKind.DEFAULT
        cursor.at += 1
        return found

    def _allocate(self, cursor: Cursor, name: str) -> Allocate:
        memory = self._memory(cursor)
        zeroed = cursor.accept("zeroed")
        stream = self.items.number(cursor, "stream")
        mempool = self.items.number(cursor, "mempool")
        out = self._typed(cursor, name)
        return Allocate(out, memory, zeroed, stream, mempool, origin=cursor.origin)

    def _allocate_pool(self, cursor: Cursor, name: str) -> AllocatePool:
        memory = self._memory(cursor)
        return AllocatePool(self._typed(cursor, name), memory, origin=cursor.origin)

    def _allocate_from_pool(self, cursor: Cursor, name: str) -> AllocateFromPool:
        pool = cursor.buffer()
        cursor.expect("[")
        offset = self.items.exprs.dim(cursor)
        cursor.expect("]")
        return AllocateFromPool(self._typed(cursor, name), pool, offset, origin=cursor.origin)

    def _reinterpret(self, cursor: Cursor, name: str) -> Reinterpret:
        source = cursor.buffer()
        return Reinterpret(self._typed(cursor, name), source, origin=cursor.origin)

    def _reuse(self, cursor: Cursor, name: str) -> Reuse:
        donor = cursor.buffer()
        return Reuse(self._typed(cursor, name), donor, origin=cursor.origin)

    def _bind(self, cursor: Cursor, name: str) -> BindSymbol:
        return BindSymbol(name, self._source(cursor), origin=cursor.origin)

    def _source(self, cursor: Cursor) -> SymbolSource:
        word = cursor.take()
        buffer = cursor.buffer()
        if word == "storage_offset":
            return StorageOffsetOf(buffer)
        if word == "item":
            return ItemOf(buffer)
        cursor.expect(",")
        dimension = self.items.integer(cursor, "a dimension")
        return SizeOf(buffer, dimension) if word == "size" else StrideOf(buffer, dimension)

    def _compute(self, cursor: Cursor, name: str) -> ComputeSymbol:
        cursor.at += 1
        return ComputeSymbol(name, self.items.exprs.scalar(cursor), origin=cursor.origin)

    def _free(self, cursor: Cursor) -> Free:
        buffer = cursor.buffer()
        after: tuple[int, ...] = ()
        if cursor.accept("after"):
            cursor.expect("[")
            after = tuple([self.items.integer(cursor, "a stream") for _ in listed(cursor, "]")])
        return Free(buffer, after, origin=cursor.origin)

    def _call(self, cursor: Cursor) -> KernelCall:
        kernel = cursor.kernel()
        args = self.items.args(cursor)
        device, stream = self.items.place(cursor)
        grid: tuple[Scalar, ...] = ()
        if cursor.accept("grid"):
            cursor.expect("[")
            grid = tuple([self.items.exprs.dim(cursor) for _ in listed(cursor, "]")])
        return KernelCall(kernel, args, device, stream, grid, origin=cursor.origin)

    def _record_event(self, cursor: Cursor) -> RecordEvent:
        event = self.items.integer(cursor, "an event")
        return RecordEvent(event, *self.items.place(cursor), origin=cursor.origin)

    def _wait_event(self, cursor: Cursor) -> WaitEvent:
        event = self.items.integer(cursor, "an event")
        return WaitEvent(event, *self.items.place(cursor), origin=cursor.origin)

    def _synchronize(self, cursor: Cursor) -> Synchronize:
        return Synchronize(self.items.device(cursor), origin=cursor.origin)

    def _assert(self, cursor: Cursor) -> AssertSymbol:
        condition = self.items.exprs.scalar(cursor)
        message = cursor.string("a message") if cursor.accept(",") else ""
        return AssertSymbol(condition, message, origin=cursor.origin)

    def _assert_layout(self, cursor: Cursor) -> AssertLayout:
        buffer = cursor.buffer()
        cursor.expect(",")
        subject = cursor.string('what is checked, such as "input"')
        align = self.items.integer(cursor, "an alignment") if cursor.accept("align") else 0
        return AssertLayout(buffer, subject, align, origin=cursor.origin)

    def _probe(self, cursor: Cursor) -> Probe:
        when = cursor.word(SIDES, "'before' or 'after'")
        label = cursor.string("a label")
        level = cursor.word(LEVELS, "what a probe does")
        cursor.expect("(")
        buffers: list[str] = []
        scalars: list[Scalar] = []
        for _ in listed(cursor, ")"):
            if cursor.next[:1] != "%":
                scalars.append(self.items.exprs.scalar(cursor))
            elif scalars:
                cursor.fail("the buffers of a probe come before its numbers")
            else:
                buffers.append(cursor.buffer())
        return Probe(label, when, level, tuple(buffers), tuple(scalars), origin=cursor.origin)

    def _extern(self, cursor: Cursor) -> KernelDefinition:
        return self._declared(cursor, is_method=False)

    def _method(self, cursor: Cursor) -> KernelDefinition:
        return self._declared(cursor, is_method=True)

    def _declared(self, cursor: Cursor, *, is_method: bool) -> KernelDefinition:
        schema, column = cursor.rest()
        if not is_plain_schema(schema):
            reason = "a schema is one line of printable text without tabs"
            raise SchemaTextError(reason=reason, place=cursor.place(column))
        try:
            name = parse_schema(schema).name
        except SchemaError as error:
            place = cursor.place(column + int(str(error.fields["column"])) - 1)
            raise SchemaTextError(reason=error.message, place=place) from None
        return KernelDefinition(name, (), TorchOp(schema, is_method), origin=cursor.origin)

    def _kernel(self, cursor: Cursor) -> KernelDefinition:
        name = cursor.kernel()
        params = self.items.params(cursor)
        makers: dict[str, Callable[[Cursor], KernelSource]]
        makers = {"cpp": self._cpp, "triton": self._triton}
        make = cursor.word(makers, "'cpp' or 'triton'")
        source = make(cursor)
        return KernelDefinition(name, params, source, origin=cursor.origin)

    def _cpp(self, cursor: Cursor) -> CppKernel:
        entry = cursor.string("a name") if cursor.accept("entry") else _DEFAULT_CPP.entry
        isa = cursor.string("an instruction set") if cursor.accept("isa") else ""
        flags = self.items.strings(cursor, "a flag") if cursor.accept("flags") else ()
        return CppKernel(self._code(cursor), entry, isa, flags)

    def _triton(self, cursor: Cursor) -> TritonKernel:
        items = self.items
        cursor.expect("entry")
        entry = cursor.string("a name")
        warps, stages = _DEFAULT_TRITON.num_warps, _DEFAULT_TRITON.num_stages
        if cursor.accept("warps"):
            warps = items.integer(cursor, "a number of warps")
        if cursor.accept("stages"):
            stages = items.integer(cursor, "a number of stages")
        at = cursor.at
        signature = items.table(cursor) if cursor.accept("signature") else ()
        types = tuple([(key, value) for key, value in signature if isinstance(value, str)])
        if len(types) != len(signature):
            cursor.fail("the types of a signature are strings", at=at)
        constants = items.table(cursor) if cursor.accept("constants") else ()
        at = cursor.at
        options = items.table(cursor) if cursor.accept("options") else ()
        set_options = tuple([(key, value) for key, value in options if value is not None])
        if len(set_options) != len(options):
            cursor.fail("an option cannot be none", at=at)
        code = self._code(cursor)
        return TritonKernel(code, entry, types, constants, warps, stages, set_options)

    def _code(self, cursor: Cursor) -> str:
        """Reads the lines of source after a kernel's first line, which must end here."""
        cursor.end()
        lines: list[str] = []
        while (text := self.reader.source_line()) is not None:
            try:
                lines.append(read_source_line(text))
            except EscapeError as error:
                place = self.reader.place(text, error.position)
                raise StringTextError(reason=str(error), place=place) from None
        if not lines:
            cursor.fail("the kernel has no source", hint="lines of source start with '|'")
        return "\n".join(lines)

    def _cond(self, cursor: Cursor, targets: list[Target]) -> Cond:
        head = self._choice(cursor, targets, "a predicate")
        then, orelse = self._region("then"), self._region("else")
        return Cond(*head, then, orelse, origin=cursor.origin)

    def _switch(self, cursor: Cursor, targets: list[Target]) -> Switch:
        head = self._choice(cursor, targets, "a selector")
        cases = [self._region("case0")]
        while self.reader.is_next(f"case{len(cases)}", "("):
            cases.append(self._region(f"case{len(cases)}"))
        return Switch(*head, tuple(cases), origin=cursor.origin)

    def _choice(
        self, cursor: Cursor, targets: list[Target], what: str
    ) -> tuple[tuple[CallResult, ...], BufferArg | ScalarArg, tuple[Arg, ...]]:
        at = cursor.at
        selector = self.items.arg(cursor)
        if not isinstance(selector, (BufferArg, ScalarArg)):
            cursor.fail(f"{what} is a buffer or a number", at=at)
        operands = self._captures(cursor)
        results = self.items.region_results(cursor, targets)
        cursor.end()
        return results, selector, operands

    def _while(self, cursor: Cursor, targets: list[Target]) -> While:
        stacked = cursor.accept("stacked")
        carried = self.items.args(cursor)
        captured = self._captures(cursor)
        results = self.items.region_results(cursor, targets)
        cursor.end()
        condition, body = self._region("condition"), self._region("body")
        return While(results, carried, captured, condition, body, stacked, origin=cursor.origin)

    def _captures(self, cursor: Cursor) -> tuple[Arg, ...]:
        """Reads ``with (...)``, which is left out where nothing is taken in."""
        if not cursor.accept("with"):
            return ()
        at = cursor.at
        found = self.items.args(cursor)
        if not found:
            cursor.fail("'with ()' is left out where nothing is taken in", at=at)
        return found

    def _region(self, name: str) -> Region:
        """Reads ``name (params) {`` and what follows up to ``}``."""
        cursor = self.reader.cursor(f"the region '{name} (...) {{'")
        cursor.expect(name)
        if self._depth >= MAX_DEPTH:
            cursor.fail(f"regions are nested deeper than {MAX_DEPTH}", NestingTextError)
        params = self.items.inputs(cursor)
        cursor.expect("{")
        cursor.end()
        self._depth += 1
        body, last = self.reader.body("yield")
        self._depth -= 1
        results = self.items.values(last)
        last.end()
        closing = self.reader.cursor("'}'")
        closing.expect("}")
        closing.end()
        return Region(params, body, results)


def _is_op(token: str) -> bool:
    return "::" in token and token[0] != '"'
