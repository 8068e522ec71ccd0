"""Inputs that a program must refuse, made from what it says of its inputs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import torch

from wrapper_ir.lines.control import BufferInput, ScalarInput
from wrapper_ir.lines.expr import free_symbols
from wrapper_ir.lines.program import SymbolKind
from wrapper_ir.lines.symbols import ItemOf
from wrapper_ir.lines.traits import binds as binds_symbol
from wrapper_ir.lines.traits import checks_layout
from wrapper_ir.testing.equivalence import example_inputs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from torch import Tensor

    from wrapper_ir.lines.program import Program

Wrong = tuple[str, list[Any]]
"""The fault in words, and the inputs."""

_LARGEST: Final = 1 << 16
"""Ranges that end later are not left upwards: the memory would be too large."""

#: Numbers that break the conditions of programs of the corpus, one each.
_BREAKS: Final[Mapping[str, Sequence[Mapping[str, float]]]] = {
    "asserts": (
        {"s0": 6, "s1": 7},
        {"s0": 1028, "s1": 514},
        {"s0": 8, "s1": 5},
        {"z0": -1.0},
    ),
}


def wrong_inputs(name: str, program: Program, inputs: Sequence[Any]) -> Iterator[Wrong]:
    """Yield inputs with one thing wrong each; those that are right are left alone.

    Args:
        name: The program's name in the corpus.
        program: The program.
        inputs: Inputs that it takes.
    """
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
    """Inputs in which symbols have other values than the hints."""
    infos = {name: replace(program.symbols[name], hint=int(n)) for name, n in numbers.items()}
    made = example_inputs(program.replace(symbols=program.symbols.set(**infos)))
    symbols = [getattr(item, "symbol", "") for item in program.inputs]
    return [numbers.get(s, value) for s, value in zip(symbols, made, strict=True)]


def _wrong_values(program: Program, name: str, right: Tensor) -> Iterator[tuple[str, object]]:
    """Yield what is not of a buffer's layout; none is smaller, so nothing is read beside it."""
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
    for line in program.body:
        if checks_layout(line) and line.buffer == name and line.alignment:
            yield "a misaligned start", _strided(right, right.stride(), 1)


def _strided(right: Tensor, strides: Sequence[int], offset: int) -> Tensor:
    """Return zeros of a tensor's type and sizes, laid out otherwise."""
    extent = sum((n - 1) * stride for n, stride in zip(right.shape, strides, strict=True))
    memory = torch.zeros(extent + 1 + offset, dtype=right.dtype)
    return memory.as_strided(right.shape, tuple(strides), offset)


def _is_asserted(program: Program, name: str, size: object) -> bool:
    """Return whether a size is held against symbols that have their values from elsewhere."""
    is_asserted = any(checks_layout(a) and a.buffer == name for a in program.body)
    binds = list(filter(binds_symbol, program.body))
    own = {line.symbol for line in binds if line.source.buffer == name}
    return is_asserted and not own & set(free_symbols(size))


def _outside_ranges(program: Program) -> Iterator[Wrong]:
    """Inputs whose sizes or numbers are just outside of a symbol's range."""
    given = {item.symbol for item in program.inputs if isinstance(item, ScalarInput)}
    for line in program.body:
        if binds_symbol(line) and not isinstance(line.source, ItemOf):
            given.add(line.symbol)
    for symbol in sorted(given):
        info = program.symbols[symbol]
        if info.kind is not SymbolKind.INT:
            continue
        if info.lower is not None and info.lower > 0:
            yield f"{symbol} = {info.lower - 1}", _made(program, {symbol: info.lower - 1})
        if info.upper is not None and info.upper < _LARGEST:
            yield f"{symbol} = {info.upper + 1}", _made(program, {symbol: info.upper + 1})
