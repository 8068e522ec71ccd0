"""The lines of a program as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wrapper_ir.lines import (
    Allocate,
    AllocateFromPool,
    AllocatePool,
    AnyLine,
    Arg,
    AssertLayout,
    AssertSymbol,
    BindSymbol,
    Comment,
    ComputeSymbol,
    Cond,
    CppKernel,
    ExternKernel,
    Free,
    ItemOf,
    KernelCall,
    KernelDefinition,
    LineVisitor,
    MemoryKind,
    Probe,
    Program,
    RecordEvent,
    Reinterpret,
    Reuse,
    Scalar,
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
from wrapper_ir.text.escape import quote, rest_of_line
from wrapper_ir.text.item_print import ItemPrinter
from wrapper_ir.text.words import is_plain_schema

if TYPE_CHECKING:
    from collections.abc import Iterable


class LinePrinter(LineVisitor[str]):
    """Prints the first, and mostly only, line of each line's text."""

    def __init__(self, program: Program, *, origins: bool, strict: bool) -> None:
        self.items = ItemPrinter(program, strict=strict)
        self._origins = len(program.origins) if origins else 0

    def line(self, line: AnyLine) -> str:
        """The line with its origin."""
        text = self.visit(line)
        origin = line.origin
        if origin is None or not 0 <= origin < self._origins:
            return text
        if isinstance(line, Comment):
            return f"//loc(#{origin}){text[2:]}"
        return f"{text} loc(#{origin})"

    def visit_allocate(self, line: Allocate) -> str:
        zeroed = " zeroed" if line.zeroed else ""
        where = self.items.numbered("stream", line.stream)
        where += self.items.numbered("mempool", line.mempool)
        return self._made(line.out, f"allocate{_memory(line.memory)}{zeroed}{where}")

    def visit_free(self, line: Free) -> str:
        after = f" after [{self.items.scalars(line.after)}]" if line.after else ""
        return f"free {self.items.buffer(line.buffer)}{after}"

    def visit_reuse(self, line: Reuse) -> str:
        return self._made(line.out, f"reuse {self.items.buffer(line.donor)}")

    def visit_reinterpret(self, line: Reinterpret) -> str:
        return self._made(line.out, f"reinterpret {self.items.buffer(line.source)}")

    def visit_allocate_pool(self, line: AllocatePool) -> str:
        return self._made(line.out, f"allocate_pool{_memory(line.memory)}")

    def visit_allocate_from_pool(self, line: AllocateFromPool) -> str:
        slot = f"{self.items.buffer(line.pool)}[{self.items.scalar(line.offset)}]"
        return self._made(line.out, f"allocate_from_pool {slot}")

    def _made(self, name: str, how: str) -> str:
        return f"{self.items.buffer(name)} = {how} : {self.items.layout_of(name)}"

    def visit_kernel_definition(self, line: KernelDefinition) -> str:
        match line.source:
            case TorchOp():
                return self._extern(line, line.source)
            case CppKernel():
                return self._kernel(line, "cpp" + self._cpp(line.source))
            case TritonKernel():
                return self._kernel(line, "triton" + self._triton(line.source))

    def _kernel(self, line: KernelDefinition, rest: str) -> str:
        params = ", ".join(map(self.items.param, line.params))
        return f"kernel {self.items.kernel(line.name)}({params}) {rest}"

    def _extern(self, line: KernelDefinition, source: TorchOp) -> str:
        refuse, schema = self.items.refuse, source.schema
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

    def _cpp(self, source: CppKernel) -> str:
        text = "" if source.entry == CppKernel("").entry else f" entry {quote(source.entry)}"
        if source.isa:
            text += f" isa {quote(source.isa)}"
        if source.flags:
            text += f" flags [{', '.join(map(quote, source.flags))}]"
        return text

    def _triton(self, source: TritonKernel) -> str:
        text = f" entry {quote(source.entry)}"
        text += f" warps {self.items.scalar(source.num_warps)}"
        text += f" stages {self.items.scalar(source.num_stages)}"
        if source.signature:
            text += f" signature {self._table(source.signature)}"
        if source.constants:
            text += f" constants {self._table(source.constants)}"
        if source.options:
            text += f" options {self._table(source.options)}"
        return text

    def _table(self, rows: Iterable[tuple[str, Scalar | str | None]]) -> str:
        return "{" + ", ".join(f"{self.items.key(key)}: {self._entry(v)}" for key, v in rows) + "}"

    def _entry(self, value: Scalar | str | None) -> str:
        if value is None:
            return "none"
        return quote(value) if isinstance(value, str) else self.items.scalar(value)

    def visit_kernel_call(self, line: KernelCall) -> str:
        items = self.items
        text = f"call {items.kernel(line.kernel)}{items.args(line.args)}"
        text += items.place(line.device, line.stream)
        return f"{text} grid [{items.scalars(line.grid)}]" if line.grid else text

    def visit_extern_kernel(self, line: ExternKernel) -> str:
        items = self.items
        call = items.op(line.op) + items.args(line.args, line.kwargs)
        where = items.place(line.device, line.stream) + items.numbered("mempool", line.mempool)
        return items.assigned(line.results) + call + where + items.result_types(line.results)

    def visit_bind_symbol(self, line: BindSymbol) -> str:
        return f"{self.items.symbol(line.symbol)} = {self._source(line.source)}"

    def _source(self, source: SymbolSource) -> str:
        buffer = self.items.buffer(source.buffer)
        match source:
            case SizeOf():
                return f"size {buffer}, {self.items.scalar(source.dim)}"
            case StrideOf():
                return f"stride {buffer}, {self.items.scalar(source.dim)}"
            case StorageOffsetOf():
                return f"storage_offset {buffer}"
            case ItemOf():
                return f"item {buffer}"

    def visit_compute_symbol(self, line: ComputeSymbol) -> str:
        return f"{self.items.symbol(line.symbol)} = compute {self.items.scalar(line.value)}"

    def visit_assert_layout(self, line: AssertLayout) -> str:
        text = f"assert_layout {self.items.buffer(line.buffer)}, {quote(line.subject)}"
        return f"{text} align {self.items.scalar(line.alignment)}" if line.alignment else text

    def visit_assert_symbol(self, line: AssertSymbol) -> str:
        text = f"assert {self.items.scalar(line.condition)}"
        return f"{text}, {quote(line.message)}" if line.message else text

    def visit_record_event(self, line: RecordEvent) -> str:
        where = self.items.place(line.device, line.stream)
        return f"record_event {self.items.scalar(line.event)}{where}"

    def visit_wait_event(self, line: WaitEvent) -> str:
        where = self.items.place(line.device, line.stream)
        return f"wait_event {self.items.scalar(line.event)}{where}"

    def visit_synchronize(self, line: Synchronize) -> str:
        return f"synchronize {self.items.device(line.device)}"

    def visit_cond(self, line: Cond) -> str:
        return self._choice(line, line.predicate)

    def visit_switch(self, line: Switch) -> str:
        return self._choice(line, line.selector)

    def _choice(self, line: Cond | Switch, selector: Arg) -> str:
        items = self.items
        call = f"{line.mnemonic} {items.arg(selector)}{self._captures(line.operands)}"
        return items.assigned(line.results) + call + items.result_types(line.results)

    def visit_while(self, line: While) -> str:
        items = self.items
        stacked = " stacked" if line.stacked else ""
        call = f"while{stacked} {items.args(line.carried)}{self._captures(line.captured)}"
        return items.assigned(line.results) + call + items.result_types(line.results)

    def _captures(self, args: tuple[Arg, ...]) -> str:
        return f" with {self.items.args(args)}" if args else ""

    def visit_comment(self, line: Comment) -> str:
        return f"// {rest_of_line(line.text)}" if line.text else "//"

    def visit_probe(self, line: Probe) -> str:
        shown = [*map(self.items.buffer, line.buffers), *map(self.items.scalar, line.scalars)]
        what = f"{line.level.value}({', '.join(shown)})"
        return f"probe {line.when.value} {quote(line.label)} {what}"


def _memory(kind: MemoryKind) -> str:
    return "" if kind is MemoryKind.DEFAULT else f" {kind.value}"
