"""What the corpus covers: which kinds of lines and of elements, and which emitters render them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from wrapper_ir.api import emit
from wrapper_ir.emitters import EmitError
from wrapper_ir.lines.walk import walk
from wrapper_ir.testing.corpus import corpus_files, corpus_program

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wrapper_ir.lines.program import Program

__all__ = ["Coverage", "Row", "coverage"]


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
    """What the corpus covers, by kinds of lines and by types of elements."""

    lines: list[Row]
    dtypes: list[Row]


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
    names = list(corpus_files())
    for done, name in enumerate(names):
        program = corpus_program(name)
        found = [emitter for emitter in emitters if _renders(program, emitter)]
        kinds = {line.mnemonic for _, line in walk(program)}
        types = {program.layout(buffer).dtype.torch_name for buffer in program.buffers}
        for table, keys in ((lines, kinds), (dtypes, types)):
            for key in keys:
                row = table.setdefault(key, Row(key, [], dict.fromkeys(emitters, 0)))
                row.programs.append(name)
                for emitter in found:
                    row.rendered[emitter] += 1
        if progress is not None:
            progress(done + 1, len(names))
    return Coverage(_sorted(lines), _sorted(dtypes))


def _sorted(table: dict[str, Row]) -> list[Row]:
    return [table[key] for key in sorted(table)]


def _renders(program: Program, emitter: str) -> bool:
    try:
        emit(program, emitter)
    except EmitError:
        return False
    return True
