"""Coverage of the corpus: kinds of lines and elements, and the emitters that render them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from wrapper_ir.api import emit
from wrapper_ir.emitters import EmitError
from wrapper_ir.lines.effects import effects
from wrapper_ir.lines.walk import walk
from wrapper_ir.testing.corpus import corpus_files, corpus_program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from wrapper_ir.lines.program import Program


@dataclass(slots=True)
class Row:
    """One kind of line, or one type of elements.

    Attributes:
        name: The line's mnemonic, or the type's name.
        programs: Programs of the corpus that have it.
        rendered: How many of these each emitter renders.
    """

    name: str
    programs: list[str] = field(default_factory=list)
    rendered: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Coverage:
    """Coverage of the corpus by kinds of lines, by element types, and by both.

    Attributes:
        lines: A row for each kind of line.
        dtypes: A row for each type of elements.
        cells: By kind of line, a row for each type of a buffer that such a line mentions.
    """

    lines: list[Row]
    dtypes: list[Row]
    cells: dict[str, list[Row]]


def coverage(
    emitters: Sequence[str], *, progress: Callable[[int, int], None] | None = None
) -> Coverage:
    """Render the corpus with some emitters and count.

    Args:
        emitters: Their names.
        progress: Called with the number of programs done and of all.
    """
    lines: dict[str, Row] = {}
    dtypes: dict[str, Row] = {}
    cells: dict[str, dict[str, Row]] = {}
    names = list(corpus_files())
    for done, name in enumerate(names):
        program = corpus_program(name)
        found = [emitter for emitter in emitters if _renders(program, emitter)]
        pairs = set(_pairs(program))
        kinds = {line.mnemonic for _, line in walk(program)}
        types = {program.layout(buffer).dtype.torch_name for buffer in program.buffers}
        tables = [(lines, kinds), (dtypes, types)]
        for kind in kinds:
            touched = {dtype for line, dtype in pairs if line == kind}
            tables.append((cells.setdefault(kind, {}), touched))
        for table, keys in tables:
            for key in keys:
                row = table.setdefault(key, Row(key, [], dict.fromkeys(emitters, 0)))
                row.programs.append(name)
                for emitter in found:
                    row.rendered[emitter] += 1
        if progress is not None:
            progress(done + 1, len(names))
    return Coverage(_sorted(lines), _sorted(dtypes), {k: _sorted(cells[k]) for k in sorted(cells)})


def _pairs(program: Program) -> Iterator[tuple[str, str]]:
    """Each kind of line with each type of a buffer that it mentions."""
    for _, line in walk(program):
        does = effects(line, program)
        for buffer in (*does.touched, *does.peeks, *does.defines):
            yield line.mnemonic, program.layout(buffer).dtype.torch_name


def _sorted(table: dict[str, Row]) -> list[Row]:
    return [table[key] for key in sorted(table)]


def _renders(program: Program, emitter: str) -> bool:
    try:
        emit(program, emitter)
    except EmitError:
        return False
    return True
