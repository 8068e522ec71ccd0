"""The corpus: small programs, each about one thing, that every emitter is held against.

They are files of text, ``<name>.wir``, whose first line says what they are about.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import torch

from wrapper_ir.api import emit
from wrapper_ir.emitters import EmitError
from wrapper_ir.lines.effects import effects
from wrapper_ir.lines.program import Program, Stage
from wrapper_ir.lines.walk import walk
from wrapper_ir.planning import plan_memory
from wrapper_ir.runtime.main import random_tensor
from wrapper_ir.testing.corpus_files import about, corpus_files
from wrapper_ir.testing.equivalence import example_inputs
from wrapper_ir.text import parse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from torch import Tensor


__all__ = ["about", "corpus_files", "corpus_inputs", "corpus_program"]

#: Programs that take what random contents are not.
_SPECIAL: Final[Mapping[str, Mapping[int, Any]]] = {
    "while": {0: torch.tensor(2)},
    "while_stacked": {0: torch.tensor(1)},
    "effects": {1: torch.ones((), dtype=torch.bool)},
}


def corpus_program(name: str, *, planned: bool = True) -> Program:
    """A program of the corpus, by default with its memory planned; its constants are random."""
    program = parse(corpus_files()[name].read_text("utf-8"))
    if planned and program.stage is Stage.LOGICAL:
        program = plan_memory(program)
    return program.replace(data=_constants(program))


def corpus_inputs(name: str, *, seed: int = 0) -> list[Any]:
    """Inputs for a program of the corpus."""
    inputs = example_inputs(corpus_program(name), seed=seed)
    for position, value in _SPECIAL.get(name, {}).items():
        inputs[position] = value.clone()
    return inputs


def _constants(program: Program) -> dict[str, Tensor]:
    data: dict[str, Tensor] = {}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        for name, constant in program.constants.items():
            layout = program.layout(name)
            dtype: torch.dtype = getattr(torch, layout.dtype.torch_name)
            size, stride = map(_numbers, (layout.size, layout.stride))
            value = random_tensor(dtype, size, stride)
            data[name] = data[constant.tied_to] if constant.tied_to else value
    return data


def _numbers(values: tuple[object, ...]) -> list[int]:
    return [value for value in values if isinstance(value, int)]


# Coverage of the corpus: kinds of lines and elements, and the emitters that render them.


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
