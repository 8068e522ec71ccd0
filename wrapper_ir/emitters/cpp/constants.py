"""Constants: where each lies in the blob of constants, and how some are made from others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from wrapper_ir.emitters.cpp import literals
from wrapper_ir.emitters.cpp.literals import UNIT, statement
from wrapper_ir.lines.args import Arg, BufferArg, ListArg, ScalarArg
from wrapper_ir.lines.program import ConstantKind, Packing, Program
from wrapper_ir.toolchain.manifest import aligned

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wrapper_ir.emitters.writer import CodeWriter
    from wrapper_ir.lines.layout import Layout


# The position of each constant in the blob, which follows from layouts alone.
#
# The blob is a run of bytes with one part per storage of constants. Parts begin at multiples of 64,
# in the order of ``program.constants``; tied constants share the part of the constant that they are
# tied to. Constants without bytes (empty, or made when the library is loaded) have no part. The
# emitter writes the positions into tables and the build writes the bytes; both use this table.
# Values are not needed, so code can be emitted for a program without them.

_TYPES: Final = {
    ConstantKind.PARAMETER: 1,
    ConstantKind.BUFFER: 2,
    ConstantKind.TENSOR: 3,
    ConstantKind.PACKED: 3,
    ConstantKind.FOLDED: 3,
}


@dataclass(frozen=True, slots=True)
class ConstantEntry:
    """One constant, as ``wir::ConstantSpec`` describes it.

    Attributes:
        name: Its name in the program.
        qualified_name: Its name in the model; any text.
        type: Number of a ``torch::aot_inductor::ConstantType``.
        written: Whether calls may write to it.
        tied_to: Index of the constant whose storage it shares, or -1.
        size: In elements.
        stride: In elements.
        storage_offset: In elements, from the start of its bytes.
        data_offset: Start of its bytes in the blob; 0 if it has none.
        data_bytes: Number of its bytes; tied constants have those of their root.
    """

    name: str
    qualified_name: str
    type: int
    written: bool
    tied_to: int

    size: tuple[int, ...]
    stride: tuple[int, ...]
    storage_offset: int
    data_offset: int
    data_bytes: int


@dataclass(frozen=True, slots=True)
class ConstantTable:
    """The constants of a program, in its order, and the end of the last part in bytes."""

    entries: tuple[ConstantEntry, ...]
    size: int


def constant_table(program: Program) -> ConstantTable:
    """Return the positions of a verified program's constants.

    Verified means that layouts of constants are static and that ties lead to a root.
    """
    names = list(program.constants)
    indices = {name: index for index, name in enumerate(names)}
    spans = _spans(program)
    offsets: dict[str, int] = {}
    end = 0
    for name, span in spans.items():
        offsets[name] = aligned(end) if span else 0
        end = offsets[name] + span if span else end
    entries = []
    for name, constant in program.constants.items():
        layout = program.buffers[name]
        root = constant.tied_to or name
        entries.append(
            ConstantEntry(
                name=name,
                qualified_name=constant.qualified_name,
                type=_TYPES[constant.kind],
                written=constant.mutable,
                tied_to=-1 if constant.tied_to is None else indices[root],
                size=tuple(int(size) for size in layout.size),
                stride=tuple(int(stride) for stride in layout.stride),
                storage_offset=int(layout.offset),
                data_offset=offsets[root],
                data_bytes=spans[root],
            )
        )
    return ConstantTable(tuple(entries), end)


def _spans(program: Program) -> dict[str, int]:
    """Return the bytes of each root, up to the last byte of it or of a constant tied to it."""
    spans = {name: 0 for name, constant in program.constants.items() if constant.tied_to is None}
    for name, constant in program.constants.items():
        if constant.is_derived:
            continue  # made when the library is loaded
        root = constant.tied_to or name
        spans[root] = max(spans[root], _end(program.buffers[name]))
    return spans


def _end(layout: Layout) -> int:
    extent = int(layout.extent)
    return (int(layout.offset) + extent) * layout.dtype.itemsize if extent else 0


# The function that packs constants: a library stores them plain and packs them when it is loaded.
#
# The packed form of a weight depends on the processor and on the version of oneDNN or MKL. It is
# therefore made again for each set of constants, by the op that made it originally.


def has_packing(program: Program) -> bool:
    """Return whether a library of the program packs constants."""
    return any(constant.packing is not None for constant in program.constants.values())


def write_packing(program: Program, writer: CodeWriter) -> None:
    """Write the function ``pack`` of a program that packs constants; it calls ops."""
    indices = {name: index for index, name in enumerate(program.constants)}
    writer.blank()
    writer.line("// Packs a constant from others, in the layout that its ops expect.")
    head = "void pack(std::size_t index, const AtenTensorHandle* constants, wir::Tensor& packed) {"
    writer.lines(*statement(head))
    with writer.indent():
        writer.line("switch (index) {")
        with writer.indent():
            for name, constant in program.constants.items():
                if constant.packing is not None:
                    _case(indices[name], constant.packing, indices, writer)
        writer.line("}")
    writer.line("}")


def _case(index: int, packing: Packing, indices: Mapping[str, int], writer: CodeWriter) -> None:
    name, _, overload = packing.op.partition(".")
    writer.line(f"case {index}: {{")
    with writer.indent():
        op = f"{literals.string(name)}, {literals.string(overload)}"
        args = ", ".join(_argument(arg, indices) for arg in packing.args)
        target = "packed" if packing.position is None else f"{{packed, {packing.position}}}"
        for text in (f"static wir::Op op{{{op}}};", f"return op({{{args}}}, {{{target}}});"):
            writer.lines(*statement(text, len(UNIT) * 3))
    writer.line("}")


def _argument(arg: Arg, indices: Mapping[str, int]) -> str:
    match arg:
        case BufferArg(buffer=buffer):
            return f"constants[{indices[buffer]}]"
        case ListArg(items=items):
            return f"wir::Ints{{{', '.join(_argument(each, indices) for each in items)}}}"
        case ScalarArg(value=bool(value)):
            return literals.boolean(value)
        case ScalarArg(value=int(value)):
            return literals.integer(value)
        case ScalarArg(value=float(value)):
            return literals.real(value)
        case _:
            return "wir::none"


# The table of folded constants: a library computes them when it is loaded, and after updates.


def write_folding(program: Program, writer: CodeWriter) -> None:
    """Write which constants the folding program takes and makes, if the program has one."""
    if program.folding is None:
        return
    indices = {name: index for index, name in enumerate(program.constants)}
    taken = [indices[program.folding_sources[name]] for name in program.folding.constants]
    writer.blank()
    writer.line("// Constants that a program of its own computes from others.")
    for name, rows in (
        ("kFoldingConstants", taken),
        ("kFolded", [indices[name] for name in program.folded]),
    ):
        head = f"constexpr std::int32_t {name}[]"
        writer.lines(*literals.table(head, list(map(str, rows))))
    given = "&wir_folding_info, kFoldingConstants, kFolded"
    writer.line(f"constexpr wir::FoldingInfo kFolding = {{{given}}};")
