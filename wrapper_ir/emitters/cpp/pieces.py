"""Rendering of pieces that are captured as CUDA graphs: what the runtime needs to know of each.

A piece is the function of its region, as for any region, and another function with the parameters
of ``wir::ProgramInfo::run`` and tables like those of a program. The state keeps its graphs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wrapper_ir.emitters.cpp import literals
from wrapper_ir.emitters.cpp.exprs import CType, slot_value, symbol_type
from wrapper_ir.emitters.cpp.literals import UNIT, call, device_constant, string, table
from wrapper_ir.emitters.writer import CodeWriter
from wrapper_ir.lines.args import BufferValue
from wrapper_ir.lines.control import BufferInput, Input, ScalarInput
from wrapper_ir.toolchain.manifest import Part

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wrapper_ir.analysis.cuda_graphs import Piece
    from wrapper_ir.emitters.cpp.context import Context


def slot(type_: CType, value: str) -> str:
    """Return a ``wir::Slot`` with a number."""
    return f"{{.{type_.member} = {value}{' ? 1 : 0' if type_ is CType.BOOL else ''}}}"


def write_piece(
    context: Context, piece: Piece, symbols: Sequence[str], name: str, function: str
) -> None:
    """Write the function ``name`` and the tables by which the runtime runs a piece.

    It calls the function of the piece's region. The symbols that this needs from outside are its
    last inputs. ``name_info`` leads to the tables.
    """
    assert context.accelerator is not None, "a piece has a device"
    context.headers.add("pieces")
    context.parts |= {Part.GRAPHS, Part.PIECES}
    context.section("declarations").line(f"extern const wir::ProgramInfo {name}_info;")
    writer = context.section("functions")
    writer.blank()
    _write_run(context, piece, symbols, name, function)
    inputs = list(_inputs(context, piece, symbols))
    outputs = list(_outputs(piece))
    for kind, what, rows in (("InputSpec", "inputs", inputs), ("OutputSpec", "outputs", outputs)):
        if rows:
            writer.blank()
            writer.lines(*table(f"constexpr wir::{kind} {name}_{what}[]", rows))
    writer.blank()
    graphs = [f".limit = {piece.limit}", f".is_random = {literals.boolean(piece.is_random)}"]
    writer.lines(*table(f"constexpr wir::GraphInfo {name}_graphs", graphs))
    args = (
        string(f"{context.program.name} at {piece.place}"),
        *(str(len(inputs)), f"{name}_inputs" if inputs else "nullptr"),
        *(str(len(outputs)), f"{name}_outputs" if outputs else "nullptr"),
        *(name, string(context.accelerator.type), device_constant(context.accelerator)),
        f"&{name}_graphs",
        *((f"&{literals.HERE}",) if context.is_here else ()),
    )
    info = call("wir::piece_info", *args)
    context.put(writer, f"const wir::ProgramInfo {name}_info = {info};")


def _write_run(
    context: Context, piece: Piece, symbols: Sequence[str], name: str, function: str
) -> None:
    writer = context.section("functions")
    params = "void* opaque, wir::Call& call, const wir::Slot* inputs, wir::Slot* outputs"
    context.put(writer, f"void {name}({params}) {{")
    body = CodeWriter(UNIT, depth=1)
    body.lines(*context.guard())
    numbers = [None if isinstance(p, BufferInput) else _symbol(p) for p in piece.region.params]
    given = [
        (
            f"inputs[{position}].tensor"
            if symbol is None
            else slot_value(position, _type_of(context, symbol))
        )
        for position, symbol in enumerate([*numbers, *symbols])
    ]
    results = [f"result_{n}" for n in range(len(piece.region.results))]
    if results:
        body.line(f"wir::Tensor {', '.join(results)};")
    context.put(
        body, f"{call(function, '*static_cast<State*>(opaque)', 'call', *given, *results)};"
    )
    body.lines(*(f"outputs[{n}].tensor = {each}.release();" for n, each in enumerate(results)))
    writer.extend(body)
    writer.line("}")


def _symbol(param: Input) -> str:
    assert isinstance(param, ScalarInput), "no region takes an object"
    return param.symbol


def _type_of(context: Context, symbol: str) -> CType:
    return symbol_type(context.program.symbols[symbol].kind)


def _inputs(context: Context, piece: Piece, symbols: Sequence[str]) -> Iterator[str]:
    """Yield a row for each input: those of the region, then symbols from outside."""
    for position, param in enumerate(piece.region.params):
        if not isinstance(param, BufferInput):
            yield _number(context, _symbol(param))
            continue
        facts = {
            ".written": position in piece.writes,
            ".tensor": context.tensor_spec(context.program.layout(param.name)),
            ".settled": position in piece.settled,
        }
        parts = [f".name = {string(param.name)}", ".kind = wir::Kind::kTensor"]
        parts += [
            f"{member} = {'true' if value is True else value}"
            for member, value in facts.items()
            if value is not False
        ]
        yield f"{{{', '.join(parts)}}}"
    yield from (_number(context, symbol) for symbol in symbols)


def _number(context: Context, symbol: str) -> str:
    kind = _type_of(context, symbol).kind
    return f"{{.name = {string(symbol)}, .kind = wir::Kind::{kind}}}"


def _outputs(piece: Piece) -> Iterator[str]:
    for position, value in enumerate(piece.region.results):
        assert isinstance(value, BufferValue), "a piece returns storages"
        shared = ", .shared = true" if position in piece.shared else ""
        yield f"{{.name = {string(value.buffer)}, .kind = wir::Kind::kTensor{shared}}}"
