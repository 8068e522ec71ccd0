"""The tables of a generated file: the facts about a program that the runtime needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import sympy
from sympy.core.relational import Relational
from sympy.logic.boolalg import Boolean

import wrapper_ir.lines as ir
from wrapper_ir.analysis.borders import stored_inputs
from wrapper_ir.analysis.liveness import mutated_inputs
from wrapper_ir.emitters.cpp import literals
from wrapper_ir.emitters.cpp.constants import (
    constant_table,
    has_packing,
    write_folding,
    write_packing,
)
from wrapper_ir.emitters.cpp.context import PROGRAM
from wrapper_ir.emitters.cpp.exprs import REAL_FUNCTIONS, CType, symbol_type
from wrapper_ir.emitters.cpp.lines import write_probes
from wrapper_ir.emitters.cpp.literals import device_constant, table
from wrapper_ir.lines import expr as vocabulary
from wrapper_ir.toolchain.manifest import Part

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wrapper_ir.emitters.cpp.constants import ConstantEntry
    from wrapper_ir.emitters.cpp.kernels import CppRun
    from wrapper_ir.emitters.writer import CodeWriter


# Element types of numbers that are results of a library, where all results are tensors.
#
# AOTInductor keeps a number in a variable of the type of the tensor it was read from, writes
# expressions as C++, and makes a tensor from the result. Our numbers are computed in 64 bits and
# returned in the type that C++'s conversions would have given them.

_OF_KIND: Final = {ir.SymbolKind.FLOAT: ir.DType.FLOAT64, ir.SymbolKind.BOOL: ir.DType.BOOL}
_HALVES: Final = (ir.DType.FLOAT16, ir.DType.BFLOAT16)
_REALS: Final = (ir.DType.FLOAT32, ir.DType.FLOAT64)

_FUNCTIONS: Final = tuple(each for each in REAL_FUNCTIONS if each is not vocabulary.ToFloat)
"""Functions that compute in float if all their arguments are floats, else in double."""

_ARITHMETIC: Final = (sympy.Add, sympy.Mul, sympy.Abs)


def symbol_types(program: ir.Program) -> dict[str, ir.DType]:
    """Return the types of the program's symbols that do not take 64 bits."""
    found: dict[str, ir.DType] = {}
    for _, line in ir.walk(program):
        if isinstance(line, ir.BindSymbol) and isinstance(line.source, ir.ItemOf):
            type_ = program.layout(line.source.buffer).dtype
            of_kind = _OF_KIND.get(program.symbols[line.symbol].kind, ir.DType.INT64)
            if of_kind in _REALS or type_.is_integral:
                found[line.symbol] = ir.DType.FLOAT32 if type_ in _HALVES else type_
        elif isinstance(line, ir.ComputeSymbol):
            found[line.symbol] = number_type(line.value, program, found)
    return found


def number_type(value: ir.Scalar, program: ir.Program, symbols: Mapping[str, ir.DType]) -> ir.DType:
    """Return the element type of a number; ``symbols`` is the result of :func:`symbol_types`."""
    if isinstance(value, bool):
        return ir.DType.BOOL
    if isinstance(value, int):
        return ir.DType.INT64
    if not isinstance(value, sympy.Basic):
        return ir.DType.FLOAT64
    return _type_of(value, program, symbols)


def _type_of(expr: sympy.Basic, program: ir.Program, symbols: Mapping[str, ir.DType]) -> ir.DType:
    if isinstance(expr, sympy.Symbol):
        kind = program.symbols[expr.name].kind
        return symbols.get(expr.name, _OF_KIND.get(kind, ir.DType.INT64))
    if isinstance(expr, (Relational, Boolean)):
        return ir.DType.BOOL
    if isinstance(expr, vocabulary.Where):
        first, second = (_type_of(arg, program, symbols) for arg in expr.args[1:])
        return first if first is second else _joined([first, second])
    args = [_type_of(arg, program, symbols) for arg in expr.args]
    if isinstance(expr, _ARITHMETIC):
        return _joined(args)
    if isinstance(expr, _FUNCTIONS):
        return ir.DType.FLOAT32 if set(args) == {ir.DType.FLOAT32} else ir.DType.FLOAT64
    is_real = isinstance(expr, (sympy.Max, sympy.Min)) and any(arg in _REALS for arg in args)
    if isinstance(expr, sympy.Pow) and args[0] in _REALS:
        return args[0]
    if is_real or isinstance(expr, (vocabulary.ToFloat, sympy.Float)) or expr.is_infinite:
        return ir.DType.FLOAT64
    return ir.DType.INT64


def _joined(types: list[ir.DType]) -> ir.DType:
    """Return the type in which C++ computes with several types: the widest one, at least an int."""
    reals = [type_ for type_ in types if type_ in _REALS]
    if reals:
        return max(reals, key=lambda type_: type_.itemsize)
    promoted = [
        ir.DType.INT32,
        *(each for each in types if each.itemsize >= ir.DType.INT32.itemsize),
    ]
    return max(promoted, key=lambda type_: (type_.itemsize, type_.name.startswith("U")))


_PLAIN_TYPES = {"kInteger": ir.DType.INT64, "kReal": ir.DType.FLOAT64, "kBool": ir.DType.BOOL}
"""The dtype of a result of each kind as a tensor, unless the table says otherwise."""

_DEFAULTS = ("0, nullptr, nullptr", "0, nullptr", "nullptr", "false", "-1", '"cpu"')

_BLOB = ("wir_constants_begin", "wir_constants_end", "wir_constants_file")

_WEAK = '[[gnu::weak, gnu::visibility("hidden")]] extern'


class Tables:
    """The tables of a program, written once all of it is rendered."""

    def __init__(self, context: CppRun) -> None:
        self._context = context
        self._program = context.program
        self._constants = constant_table(context.program)
        self._number_types = symbol_types(context.program)
        self._stored = stored_inputs(context.program)
        self._lasting = context.kept.storages.lasting_results(context.program)

    def write(self, writer: CodeWriter) -> None:
        """Write the tables."""
        program, context = self._program, self._context
        written = mutated_inputs(program)
        inputs = [
            self._input(param, written=position in written)
            for position, param in enumerate(context.inputs)
        ]
        outputs = [self._output(position, v) for position, v in enumerate(program.results)]
        constants = [self._constant(entry) for entry in self._constants.entries]
        lines = [f"{{{', '.join(map(literals.string, row))}}}" for row in context.lines]
        for head, rows in (
            ("constexpr wir::InputSpec kInputs[]", inputs),
            ("constexpr wir::OutputSpec kOutputs[]", outputs),
            ("constexpr wir::ConstantSpec kConstants[]", constants),
            ("constexpr wir::LineInfo kLines[]", lines),
        ):
            if rows:
                writer.blank()
                writer.lines(*table(head, rows))
        if has_packing(program):
            context.parts.add(Part.OPS)
            write_packing(program, writer)
        write_probes(context.probes, writer)
        self._write_graphs(writer)
        self._write_objects(writer)
        write_folding(program, writer)
        for head, rows in (
            ("constexpr const char* kUnread[]", [literals.string(name) for name in program.unread]),
            ("constexpr wir::OpName kOps[]", self._ops()),
        ):
            if rows:
                writer.blank()
                writer.lines(*table(head, rows))

    def _ops(self) -> list[str]:
        """Return the names of the ops that must be registered when a library is loaded."""
        pairs = (map(literals.string, each) for each in self._context.foreign_ops)
        return [f"{{{', '.join(pair)}}}" for pair in pairs]

    def _write_graphs(self, writer: CodeWriter) -> None:
        """Write how the library captures calls as CUDA graphs, if it does."""
        graphs = self._context.graphs
        if graphs is None:
            return
        reasons = [literals.string(reason) for reason in graphs.reasons]
        writer.blank()
        writer.line("// A library captures its own calls as CUDA graphs.")
        if reasons:
            writer.lines(*table("constexpr const char* kObstacles[]", reasons))
        if graphs.copied:
            positions = [str(position) for position in graphs.copied]
            writer.lines(*table("constexpr std::int32_t kCopied[]", positions))
        rows = [
            f".limit = {literals.integer(graphs.limit)}",
            f".shares_results = {literals.boolean(graphs.results == 'shared')}",
            f".is_random = {literals.boolean(graphs.is_random)}",
            f".has_branches = {literals.boolean(graphs.has_branches)}",
            f".num_reasons = {len(reasons)}",
            f".reasons = {'kObstacles' if reasons else 'nullptr'}",
        ]
        if graphs.copied:
            rows += [f".num_copied = {len(graphs.copied)}", ".copied = kCopied"]
        writer.lines(*table("constexpr wir::GraphInfo kGraphs", rows))

    def _write_objects(self, writer: CodeWriter) -> None:
        """Write the objects that belong to the program, which a stand-alone library creates."""
        if not self._program.objects:
            return
        rows = [
            f"{{{', '.join(map(literals.string, (name, item.qualified_name, item.class_name)))}}}"
            for name, item in self._program.objects.items()
        ]
        writer.blank()
        writer.lines(*table("constexpr wir::ObjectSpec kObjects[]", rows))

    def write_info(self, writer: CodeWriter) -> None:
        """Write the structure that leads to everything else; it is outside of any namespace."""
        program, context = self._program, self._context
        space, is_whole = context.namespace, context.unit == PROGRAM
        counts = (
            ("kInputs", len(context.inputs)),
            ("kOutputs", len(program.results)),
            ("kConstants", len(self._constants.entries)),
            ("kLines", len(context.lines)),
        )
        rows = [
            "wir::kContract",
            literals.string(program.name),
            *(f"{n}, {f'{space}::{name}' if n else 'nullptr'}" for name, n in counts),
            literals.string(program.in_spec),
            literals.string(program.out_spec),
            *(_BLOB if is_whole else ["nullptr"] * len(_BLOB)),
            literals.integer(self._constants.size),
            "wir_constants_digest" if is_whole else "nullptr",
            *(f"{space}::{name}" for name in ("create_state", "destroy_state", "run")),
        ]
        rows += self._extras()
        head = f'extern "C" const wir::ProgramInfo {space}_info'
        if not is_whole:  # the constants are those of the program around it
            writer.lines(*table(head, rows))
            return
        writer.line("// Defined by the build; null if absent.")
        writer.line('extern "C" {')
        for name, type_ in (
            ("begin", "std::uint8_t"),
            ("end", "std::uint8_t"),
            ("file", "char"),
            ("digest", "char"),
        ):
            writer.line(f"{_WEAK} const {type_} wir_constants_{name}[];")
        if program.objects:
            writer.line(f"{_WEAK} const wir::ObjectPlace wir_object_places[];")
        writer.line("}")
        writer.blank()
        writer.lines(*table(head, rows))

    def _extras(self) -> list[str]:
        """Return the rows that have defaults, up to the last one that differs from its default."""
        context, unread, objects = self._context, self._program.unread, self._program.objects
        kept, device, side = context.state.kept_bytes(), context.accelerator, context.side
        space = context.namespace
        rows = [
            f"{len(context.probes)}, {space}::kProbes" if context.probes else "0, nullptr",
            "nullptr" if kept is None else f"{space}::kept_bytes",
            literals.boolean(context.takes_out),
            literals.string(ir.CPU.type if device is None else device.type),
            "-1" if device is None else device_constant(device),
            # States without device memory serve any stream.
            (side and kept and side.stream) or "nullptr",
            (side and self._constants.entries and side.wait) or "nullptr",
            "nullptr" if context.graphs is None else f"&{space}::kGraphs",
            (
                f"{len(objects)}, {space}::kObjects, wir_object_places"
                if objects
                else "0, nullptr, nullptr"
            ),
            f"{space}::pack" if has_packing(self._program) else "nullptr",
            f"{len(unread)}, {space}::kUnread" if unread else "0, nullptr",
            f"{len(ops)}, {space}::kOps" if (ops := self._ops()) else "0, nullptr",
            "nullptr" if self._program.folding is None else f"&{space}::kFolding",
            f"&{space}::{literals.HERE}" if context.is_here else "nullptr",
            f"{space}::release_shared" if context.keepers else "nullptr",
        ]
        while rows and rows[-1] in _DEFAULTS:
            rows.pop()
        return rows

    def _input(self, param: ir.Input, *, written: bool) -> str:
        if isinstance(param, ir.BufferInput):
            is_saved = self._program.role is ir.GraphRole.BACKWARD
            anywhere = is_saved and param.name in self._context.random_states
            spec = self._context.tensor_spec(
                self._program.layout(param.name),
                anywhere=anywhere,
                plain=param.name in self._stored,
            )
            flags = f"{literals.boolean(param.donated)}, {literals.boolean(written)}"
            name = literals.string(param.name)
            return f"{{{name}, wir::Kind::kTensor, {flags}, {spec}}}"
        if isinstance(param, ir.ObjectInput):
            name, of = map(literals.string, (param.object, param.class_name))
            return f"{{{name}, wir::Kind::kObject, false, true, {{}}, false, {{}}, {of}}}"
        symbol_kind = self._program.symbols[param.symbol].kind
        type_ = symbol_type(symbol_kind)
        name, kind = literals.string(param.symbol), type_.kind
        if symbol_kind is ir.SymbolKind.NONE:
            kind, fixed = "kNone", ", true"
        elif param.symbol not in self._context.symbols:
            kind, fixed = "kNone", ""  # any value will do
        else:
            fixed = self._fixed(param.symbol, type_)
        return f"{{{name}, wir::Kind::{kind}, false, false, {{}}{fixed}}}"

    def _fixed(self, symbol: str, type_: CType) -> str:
        """Return the only number that an input may be, if the program requires one."""
        for line in self._program.body:
            if isinstance(line, ir.AssertSymbol) and isinstance(line.condition, sympy.Eq):
                name, number = line.condition.args
                if getattr(name, "name", "") == symbol and number.is_number:
                    if type_ is CType.REAL:
                        text = literals.real(float(number))
                    else:
                        text = literals.integer(int(number))
                    return f", true, {{.{type_.member} = {text}}}"
        return ""

    def _output(self, position: int, value: ir.Value) -> str:
        if isinstance(value, ir.BufferValue):
            kind, name = "kTensor", value.buffer
        elif isinstance(value, ir.NoneValue):
            kind, name = "kNone", f"result_{position}"
        else:
            return self._number(f"result_{position}", value.value)
        parts = [literals.string(name), f"wir::Kind::{kind}"]
        if self._context.takes_out and isinstance(value, ir.BufferValue):
            parts.append(self._context.tensor_spec(self._program.layout(value.buffer)))
        if position in self._lasting:
            parts += [*(["{}"] if len(parts) == 2 else []), "-1", "false", "true"]
        return f"{{{', '.join(parts)}}}"

    def _number(self, name: str, value: ir.Scalar) -> str:
        kind = self._context.exprs.type_of(value).kind
        parts = [literals.string(name), f"wir::Kind::{kind}"]
        type_ = number_type(value, self._program, self._number_types)
        if type_ is not _PLAIN_TYPES[kind]:
            parts += ["{}", f"wir::dtype::{type_.torch_name}"]
        return f"{{{', '.join(parts)}}}"

    def _constant(self, entry: ConstantEntry) -> str:
        layout = self._program.layout(entry.name)
        parts = (
            literals.string(entry.name),
            literals.string(entry.qualified_name),
            str(entry.type),
            literals.boolean(entry.written),
            str(entry.tied_to),
            self._context.tensor_spec(layout),
            literals.integer(entry.storage_offset),
            literals.integer(entry.data_offset),
            literals.integer(entry.data_bytes),
            *(["true"] if self._program.constants[entry.name].is_derived else ()),
        )
        return f"{{{', '.join(parts)}}}"
