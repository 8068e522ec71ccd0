"""The corpus: small programs, each about one thing, that test every emitter.

They are text files, ``<name>.wir``, whose first line states the subject.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import torch

from wrapper_ir.analysis.borders import alignments
from wrapper_ir.api import emit
from wrapper_ir.emitters import EmitError
from wrapper_ir.lines.control import BufferInput, ScalarInput
from wrapper_ir.lines.effects import effects
from wrapper_ir.lines.expr import free_symbols
from wrapper_ir.lines.program import Program, Stage, SymbolKind
from wrapper_ir.lines.symbols import ItemOf
from wrapper_ir.lines.traits import binds as binds_symbol
from wrapper_ir.lines.traits import checks_layout
from wrapper_ir.lines.walk import walk
from wrapper_ir.planning import plan_memory
from wrapper_ir.runtime.main import random_tensor
from wrapper_ir.testing.corpus_files import about, corpus_files
from wrapper_ir.testing.equivalence import example_inputs
from wrapper_ir.text import parse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from torch import Tensor

    from wrapper_ir.passes import Pass


__all__ = ["about", "corpus_files", "corpus_inputs", "corpus_program", "wrong_inputs"]

#: Inputs of programs that random contents would not fit, by position.
_SPECIAL: Final[Mapping[str, Mapping[int, Any]]] = {
    "while": {0: torch.tensor(2)},
    "while_stacked": {0: torch.tensor(1)},
    "effects": {1: torch.ones((), dtype=torch.bool)},
}


def corpus_program(name: str, *, planned: bool = True) -> Program:
    """Return a program of the corpus with random constants, by default planned."""
    program = parse(corpus_files()[name].read_text("utf-8"))
    if planned and program.stage is Stage.LOGICAL:
        program = plan_memory(program)
    return program.replace(data=_constants(program))


def corpus_inputs(name: str, *, seed: int = 0) -> list[Any]:
    """Return inputs for a program of the corpus."""
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
            size, stride = (list(map(int, values)) for values in (layout.size, layout.stride))
            value = random_tensor(dtype, size, stride)
            data[name] = data[constant.tied_to] if constant.tied_to else value
    return data


def logical_program(name: str) -> Program:
    """Return a program of the corpus as a logical one, so that it goes through lowering.

    Most are planned. Their frees, slices and reuses are legal in a logical program as well, and the
    planner keeps them.
    """
    return corpus_program(name, planned=False).replace(stage=Stage.LOGICAL)


def obeying(passes: Iterable[Pass], program: Program) -> Program:
    """Return a program after passes that obey the rules on it.

    A pass leaves its argument alone and always returns the same for it; a second run returns its
    argument itself. That a result is valid is checked whenever a pass of a package runs.

    Raises:
        AssertionError: A pass breaks a rule. The message says which.
    """
    for run in passes:
        before, data = str(program), dict(program.data)
        once = run(program)
        assert str(program) == before, f"the pass '{run.name}' changes its argument"
        kept = data.keys() == program.data.keys()
        kept = kept and all(value is program.data[name] for name, value in data.items())
        assert kept, f"the pass '{run.name}' changes the values of its argument's constants"
        assert run(program) == once, f"the pass '{run.name}' returns something else each time"
        assert run(once) is once, f"a second run of the pass '{run.name}' returns another program"
        program = once
    return program


# Inputs that a program must reject, derived from its input declarations.

Wrong = tuple[str, list[Any]]
"""A description of the fault, and the inputs."""

_LARGEST: Final = 1 << 16
"""The largest upper bound to exceed. Beyond it, the inputs would take too much memory."""

#: Numbers that violate one assertion each, by corpus program.
_BREAKS: Final[Mapping[str, Sequence[Mapping[str, float]]]] = {
    "asserts": ({"s0": 6, "s1": 7}, {"s0": 1028, "s1": 514}, {"s0": 8, "s1": 5}, {"z0": -1.0})
}


def wrong_inputs(name: str, program: Program, inputs: Sequence[Any]) -> Iterator[Wrong]:
    """Yield inputs with one fault each, from valid ones, which are not modified."""
    if inputs:
        yield "no inputs", []
        yield "one input too many", [*inputs, inputs[0]]
    for position, item in enumerate(program.inputs):
        if isinstance(item, BufferInput):
            for what, value in _wrong_values(program, item.name, inputs[position]):
                yield f"{what} of %{item.name}", _with(inputs, position, value)
        elif isinstance(item, ScalarInput):
            yield f"a word for {item.symbol}", _with(inputs, position, "a word")
    yield from _outside_ranges(program)
    for numbers in _BREAKS.get(name, ()):
        yield f"a condition that {dict(numbers)} breaks", _made(program, numbers)


def _with(inputs: Sequence[Any], position: int, value: object) -> list[Any]:
    return [*inputs[:position], value, *inputs[position + 1 :]]


def _made(program: Program, numbers: Mapping[str, float]) -> list[Any]:
    """Return inputs with other values of symbols than the hints."""
    infos = {name: replace(program.symbols[name], hint=int(n)) for name, n in numbers.items()}
    inputs = example_inputs(program.replace(symbols=program.symbols.set(**infos)))
    symbols = [getattr(item, "symbol", "") for item in program.inputs]
    return [numbers.get(s, value) for s, value in zip(symbols, inputs, strict=True)]


def _wrong_values(program: Program, name: str, right: Tensor) -> Iterator[tuple[str, object]]:
    """Yield values that do not fit a buffer's layout, none smaller, so that no read overruns."""
    other = torch.complex128 if right.dtype != torch.complex128 else torch.float64
    yield "another type", torch.zeros(right.shape, dtype=other)
    yield "another device", torch.empty_like(right, device="meta")
    yield "a number instead", 1
    yield "a dimension too many", torch.stack([right, right])
    layout = program.layout(name)
    for dim, size in enumerate(layout.size):
        if right.shape[dim] and (isinstance(size, int) or _is_asserted(program, name, size)):
            yield f"another size {dim}", torch.cat([right, right], dim)
    if all(isinstance(each, int) for each in (*layout.size, *layout.stride)) and right.numel() > 1:
        steps = zip(right.shape, right.stride(), strict=True)
        strides = [2 * stride if n > 1 else stride for n, stride in steps]
        yield "other strides", _strided(right, strides, 0)
    if name in alignments(program):
        yield "a misaligned start", _strided(right, right.stride(), 1)


def _strided(right: Tensor, strides: Sequence[int], offset: int) -> Tensor:
    """Return zeros of a tensor's type and sizes, with other strides and offset."""
    extent = sum((n - 1) * stride for n, stride in zip(right.shape, strides, strict=True))
    memory = torch.zeros(extent + 1 + offset, dtype=right.dtype)
    return memory.as_strided(right.shape, tuple(strides), offset)


def _is_asserted(program: Program, name: str, size: object) -> bool:
    """Return whether a size is asserted and depends on no symbol bound from the same buffer."""
    is_asserted = any(checks_layout(a) and a.buffer == name for a in program.body)
    binds = list(filter(binds_symbol, program.body))
    own = {line.symbol for line in binds if line.source.buffer == name}
    return is_asserted and not own & set(free_symbols(size))


def _outside_ranges(program: Program) -> Iterator[Wrong]:
    """Yield inputs with sizes or numbers just outside a symbol's range."""
    symbols = {item.symbol for item in program.inputs if isinstance(item, ScalarInput)}
    for line in program.body:
        if binds_symbol(line) and not isinstance(line.source, ItemOf):
            symbols.add(line.symbol)
    for symbol in sorted(symbols):
        info = program.symbols[symbol]
        if info.kind is not SymbolKind.INT:
            continue
        if info.lower is not None and info.lower > 0:
            yield f"{symbol} = {info.lower - 1}", _made(program, {symbol: info.lower - 1})
        if info.upper is not None and info.upper < _LARGEST:
            yield f"{symbol} = {info.upper + 1}", _made(program, {symbol: info.upper + 1})


# Coverage of the corpus: its kinds of lines and element types, and the emitters that render them.


@dataclass(slots=True)
class Row:
    """The coverage of one kind of line or one element type."""

    name: str  #: the line's mnemonic, or the type's name
    programs: list[str]  #: those of the corpus that contain it
    rendered: dict[str, int]  #: how many of these each emitter renders


@dataclass(frozen=True, slots=True)
class Coverage:
    """Coverage of the corpus by kind of line, by element type, and by both."""

    lines: list[Row]
    dtypes: list[Row]
    cells: dict[str, list[Row]]  #: by kind of line: rows for the types of buffers it mentions


def coverage(
    emitters: Sequence[str], *, progress: Callable[[int, int], None] | None = None
) -> Coverage:
    """Render the corpus with emitters and count; report the programs done, and all, as progress."""
    lines: dict[str, Row] = {}
    dtypes: dict[str, Row] = {}
    cells: dict[str, dict[str, Row]] = {}
    names = list(corpus_files())
    for done, name in enumerate(names):
        program = corpus_program(name)
        able = [emitter for emitter in emitters if _renders(program, emitter)]
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
                for emitter in able:
                    row.rendered[emitter] += 1
        if progress is not None:
            progress(done + 1, len(names))
    return Coverage(_sorted(lines), _sorted(dtypes), {k: _sorted(cells[k]) for k in sorted(cells)})


def _pairs(program: Program) -> Iterator[tuple[str, str]]:
    """Yield each kind of line with each element type of the buffers that it mentions."""
    for _, line in walk(program):
        line_effects = effects(line, program)
        for buffer in (*line_effects.touched, *line_effects.peeks, *line_effects.defines):
            yield line.mnemonic, program.layout(buffer).dtype.torch_name


def _sorted(table: dict[str, Row]) -> list[Row]:
    return [table[key] for key in sorted(table)]


def _renders(program: Program, emitter: str) -> bool:
    try:
        emit(program, emitter)
    except EmitError:
        return False
    return True
