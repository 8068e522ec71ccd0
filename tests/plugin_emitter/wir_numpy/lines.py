"""Lines as statements over NumPy arrays."""

from __future__ import annotations

import builtins
import keyword
from typing import TYPE_CHECKING, Final

from wrapper_ir.emitters.names import NamePlan
from wrapper_ir.emitters.python.exprs import MATH_FUNCTIONS, PythonExprs
from wrapper_ir.lines import (
    Allocate,
    AllocateFromPool,
    AllocatePool,
    AnyLine,
    AssertLayout,
    BindSymbol,
    BufferArg,
    BufferInput,
    BufferValue,
    Comment,
    ComputeSymbol,
    CppKernel,
    Free,
    Input,
    KernelCall,
    KernelDefinition,
    Layout,
    NoneValue,
    PartialLineVisitor,
    Program,
    Reinterpret,
    Reuse,
    ScalarArg,
    ScalarInput,
    SizeOf,
    StrideOf,
    SymbolKind,
    Value,
)
from wrapper_ir.lines.layout import CPU
from wrapper_ir.lines.walk import Path

if TYPE_CHECKING:
    from wrapper_ir.emitters import Problems
    from wrapper_ir.lines.expr import Dim

__all__ = ["DTYPES", "Lines"]

#: Types of elements that NumPy has, by our names.
DTYPES: Final = {
    name: name.replace("bool", "bool_")
    for name in (
        *("float64", "float32", "float16", "complex64", "complex128", "bool"),
        *("int64", "int32", "int16", "int8", "uint8", "uint16", "uint32", "uint64"),
    )
}

_RESERVED: Final = frozenset(
    {*keyword.kwlist, *dir(builtins), *MATH_FUNCTIONS}
    | {
        "CppKernels",
        "args",
        "call",
        "check_number",
        "check_symbol",
        "empty",
        "kernels",
        "np",
        "on_arrays",
        "view",
    }
)


class Lines(PartialLineVisitor[None]):
    """Renders one line after the other; what it has no method for is a problem."""

    def __init__(self, program: Program, problems: Problems) -> None:
        self.program = program
        self.problems = problems
        self.path = Path()
        self.body: list[str] = []
        self.kernels: list[str] = []
        self.loaded: list[str] = []
        wanted = [(("buffer", name), name) for name in program.buffers]
        wanted += [(("symbol", name), name) for name in program.symbols]
        wanted += [(("kernel", name), name) for name in program.kernels]
        self.names = NamePlan(wanted, _RESERVED)
        self.exprs = PythonExprs(lambda name: self.names["symbol", name])
        self.inputs = {getattr(each, "name", "") for each in program.inputs}

    def visit_unsupported(self, line: AnyLine) -> None:
        self.refuse(line, "it has no form in NumPy")

    def refuse(self, line: AnyLine, reason: str) -> None:
        self.problems.add(line, self.path, reason)

    def input(self, each: Input) -> str:
        """The parameter of an input."""
        if isinstance(each, BufferInput):
            return self.names["buffer", each.name]
        return self.names["symbol", each.symbol]

    def check(self, each: Input) -> str:
        """A statement that checks an input that is a number; empty of another."""
        if not isinstance(each, ScalarInput):
            return ""
        info, symbol = self.program.symbols[each.symbol], self.names["symbol", each.symbol]
        kind = "type(None)" if info.kind is SymbolKind.NONE else info.kind.value
        return f"check_number({each.symbol!r}, {symbol}, {kind}, {info.lower}, {info.upper})"

    def result(self, each: Value) -> str:
        """What is returned for a result."""
        match each:
            case BufferValue():
                return self.names["buffer", each.buffer]
            case NoneValue():
                return "None"
            case _:
                return self.exprs.print(each.value)

    def numbers(self, values: tuple[Dim, ...]) -> str:
        inside = ", ".join(self.exprs.print(value) for value in values)
        return f"({inside},)" if len(values) == 1 else f"({inside})"

    def layout(self, line: AnyLine, layout: Layout) -> str:
        if layout.device != CPU:
            self.refuse(line, "NumPy has memory of the host alone")
        if layout.dtype.torch_name not in DTYPES:
            self.refuse(line, f"NumPy has no type {layout.dtype.torch_name}")
            return ""
        dtype = DTYPES[layout.dtype.torch_name]
        return f"{dtype!r}, {self.numbers(layout.size)}, {self.numbers(layout.stride)}"

    def assign(self, name: str, value: str) -> None:
        self.body.append(f"{self.names['buffer', name]} = {value}")

    def visit_allocate(self, line: Allocate) -> None:
        self.assign(line.out, f"empty({self.layout(line, self.program.layout(line.out))})")
        if line.zeroed:
            self.body.append(f"{self.names['buffer', line.out]}[...] = 0")

    def visit_allocate_pool(self, line: AllocatePool) -> None:
        self.assign(line.out, f"empty({self.layout(line, self.program.layout(line.out))})")

    def visit_allocate_from_pool(self, line: AllocateFromPool) -> None:
        self.view(line, line.out, line.pool, self.exprs.print(line.offset))

    def visit_reinterpret(self, line: Reinterpret) -> None:
        new, old = self.program.layout(line.out), self.program.layout(line.source)
        start = new.offset * new.dtype.itemsize - old.offset * old.dtype.itemsize
        self.view(line, line.out, line.source, self.exprs.print(start))

    def visit_reuse(self, line: Reuse) -> None:
        self.view(line, line.out, line.donor, "0")
        self.body.append(f"del {self.names['buffer', line.donor]}")

    def view(self, line: AnyLine, out: str, source: str, start: str) -> None:
        layout = self.layout(line, self.program.layout(out))
        self.assign(out, f"view({self.names['buffer', source]}, {layout}, {start})")

    def visit_free(self, line: Free) -> None:
        self.body.append(f"del {self.names['buffer', line.buffer]}")

    def visit_kernel_definition(self, line: KernelDefinition) -> None:
        if not isinstance(line.source, CppKernel):
            return  # whatever calls it is refused
        name = self.names["kernel", line.name]
        self.kernels.append(line.name)
        self.loaded.append(name)

    def visit_kernel_call(self, line: KernelCall) -> None:
        if line.kernel not in self.kernels:
            self.refuse(line, "only kernels in C++ can be called")
            return
        args = []
        for arg in line.args:
            match arg:
                case BufferArg():
                    args.append(self.names["buffer", arg.buffer])
                case ScalarArg():
                    args.append(self.exprs.print(arg.value))
                case _:
                    self.refuse(line, "an argument is neither array nor number")
        self.body.append(f"{self.names['kernel', line.kernel]}({', '.join(args)})")

    def visit_bind_symbol(self, line: BindSymbol) -> None:
        symbol, source = self.names["symbol", line.symbol], line.source
        match source:
            case SizeOf():
                array = self.names["buffer", source.buffer]
                self.body.append(f"{symbol} = {array}.shape[{source.dim}]")
            case StrideOf():
                array = self.names["buffer", source.buffer]
                self.body.append(f"{symbol} = {array}.strides[{source.dim}] // {array}.itemsize")
            case _:
                self.refuse(line, "only sizes and strides bind symbols")
                return
        info = self.program.symbols[line.symbol]
        bounds = f"{info.lower}, {info.upper}"
        self.body.append(f"check_symbol({line.symbol!r}, {symbol}, {bounds}, 'an input')")

    def visit_compute_symbol(self, line: ComputeSymbol) -> None:
        self.body.append(f"{self.names['symbol', line.symbol]} = {self.exprs.print(line.value)}")

    def visit_assert_layout(self, line: AssertLayout) -> None:
        if line.buffer not in self.inputs or line.alignment:
            self.refuse(line, "only layouts of inputs are checked")

    def visit_comment(self, line: Comment) -> None:
        self.body.extend(f"# {text!r}" for text in line.text.splitlines())
