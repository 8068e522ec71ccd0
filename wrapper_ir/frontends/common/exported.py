"""What exported graphs do not say: ranges of symbols, inputs that lie apart, names of tensors."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import torch

from wrapper_ir.analysis.liveness import mutated_inputs, storages_of
from wrapper_ir.frontends.common.expressions import bound_of
from wrapper_ir.lines.control import BufferInput
from wrapper_ir.lines.effects import effects
from wrapper_ir.lines.layout import LayoutKind
from wrapper_ir.lines.program import AnyLine, Constant, ConstantKind, FrozenMap, Program
from wrapper_ir.lines.symbols import AssertApart
from wrapper_ir.lines.traits import asserts, binds, checks_layout, computes, declares

if TYPE_CHECKING:
    from collections.abc import Collection, Container, Mapping


# Ranges of the symbols of an exported program, and what tracing assumed of them.
#
# Torch traces with inputs whose sizes are neither 0 nor 1. Code for any larger size is right for
# these two as well, and torch's own programs accept them, whatever the trace assumed: a range that
# begins at 2 is one without a lower bound. Only the sizes of inputs are meant, not the integers
# among the inputs, nor the numbers that a program reads from tensors.

Range: TypeAlias = tuple[int | None, int | None]
"""The inclusive bounds of a symbol; None where there is none."""

LEAST_TRACED: Final = 2
"""The least size that torch traces with."""


def exported_ranges(graph: torch.fx.Graph, ranges: Mapping[Any, Any]) -> dict[str, Range]:
    """Return the range of each symbol that an exported graph promises to accept, by name.

    Its placeholders have fake values; ``ranges`` are torch's, its ``range_constraints``.
    """
    sizes = {symbol for size in _input_sizes(graph) for symbol in size.node.expr.free_symbols}
    found = {}
    for symbol, values in ranges.items():
        lower, upper = bound_of(values.lower), bound_of(values.upper)
        found[str(symbol)] = 0 if symbol in sizes and lower == LEAST_TRACED else lower, upper
    return found


def assume_traced_sizes(graph: torch.fx.Graph) -> None:
    """Have the graph's shape environment assume of inputs' sizes what it assumed in the trace.

    A program that was saved and loaded has its declared ranges there instead. With those, what
    compiles the graph would ask whether a size is 1, and rely on the answer.
    """
    for size in _input_sizes(graph):
        symbol, environment = size.node.expr, size.node.shape_env
        known = environment.var_to_range.get(symbol)
        if known is None or not (size.node.has_hint() and size.node.hint >= LEAST_TRACED):
            continue
        if known.lower < LEAST_TRACED:
            environment.constrain_symbol_range(symbol, LEAST_TRACED, known.upper)


def _input_sizes(graph: torch.fx.Graph) -> list[Any]:
    """Return the symbolic sizes of a graph's inputs."""
    values = [node.meta.get("val") for node in graph.find_nodes(op="placeholder")]
    shapes: list[Any] = [value.shape for value in values if isinstance(value, torch.Tensor)]
    return [size for shape in shapes for size in shape if isinstance(size, torch.SymInt)]


# Inputs that a front end takes for separate tensors.
#
# Exported graphs are functional: they know no two tensors that share memory. What a model does with
# arguments that overlap, one of them written to, no such graph says. A program of one checks that
# they do not.


def with_apart_inputs(program: Program) -> Program:
    """Return the program with a check, if it writes to inputs, that these share no memory.

    It comes before everything that reads or writes a tensor. Other programs stay as they are.
    """
    storages = storages_of(program)
    names = [
        name for name in storages.touched_inputs if program.layout(name).kind is LayoutKind.STRIDED
    ]
    inputs = [program.inputs[position] for position in mutated_inputs(program)]
    changed = {item.name for item in inputs if isinstance(item, BufferInput)}
    written = tuple(name for name in names if name in changed)
    others = tuple(name for name in names if name not in written)
    if not written or len(names) < 2:
        return program
    rest = (n for n, line in enumerate(program.body) if not _is_preamble(line))
    at = next(rest, len(program.body))
    check = AssertApart(written, others)
    return program.replace(body=(*program.body[:at], check, *program.body[at:]))


def _is_preamble(line: AnyLine) -> bool:
    of_symbols = asserts(line) or computes(line) or (binds(line) and not effects(line).reads)
    return declares(line) or checks_layout(line) or of_symbols


# The names of a model's tensors besides those of a program's constants.


PLAIN: Final = (torch.Tensor, torch.nn.Parameter)
"""Types of tensors whose memory holds their values."""


def with_other_names(
    program: Program,
    values: Mapping[str, Any],
    kinds: Mapping[str, ConstantKind],
    folded: Collection[str] = (),
) -> Program:
    """Return the program with what loaders need to know about all of a model's tensors.

    Further names of a constant's tensor become constants that are tied to it, so that any of these
    names stands for it. The names of tensors that the program does not need are noted.

    ``values`` are the model's tensors by qualified name, and anything else, which is ignored.
    ``folded`` names tensors whose values are part of other constants: whoever passes new values for
    them has to be told that the program would not use them.
    """
    constants, layouts, data = dict(program.constants), dict(program.buffers), dict(program.data)
    known = {constant.qualified_name for constant in constants.values()} | {*folded}
    lost = {memory_key(values[name]) for name in folded if name in values}
    first = {memory_key(data[name]): name for name in reversed(constants) if name in data}
    unread = []
    for qualified, value in values.items():
        if qualified in known or not isinstance(value, torch.Tensor):
            continue
        same = first.get(memory_key(value))
        if same is None:
            unread += [qualified] if memory_key(value) not in lost else []
            continue
        name = re.sub(r"\W", "_", qualified, flags=re.ASCII)
        name = unused(name if name[:1].isalpha() else f"_{name}", program, layouts)
        kind = kinds.get(qualified, ConstantKind.TENSOR)
        constants[name] = Constant(qualified, kind, tied_to=constants[same].tied_to or same)
        layouts[name], data[name] = layouts[same], data[same]
    return program.replace(
        constants=FrozenMap(constants), buffers=FrozenMap(layouts), data=data, unread=tuple(unread)
    )


def renamed(program: Program, names: Mapping[str, str]) -> Program:
    """Return the program with other names of the model's tensors."""
    rows = [(name, each, each.qualified_name) for name, each in program.constants.items()]
    constants = {name: replace(each, qualified_name=names.get(q, q)) for name, each, q in rows}
    unread = tuple(names.get(name, name) for name in program.unread)
    folding = None if program.folding is None else renamed(program.folding, names)
    return program.replace(constants=FrozenMap(constants), unread=unread, folding=folding)


def memory_key(value: Any) -> object:
    """Return a key that is equal for tensors with the same layout in the same memory."""
    is_plain = type(value) in PLAIN and value.layout == torch.strided
    if not is_plain or not value.numel():
        return id(value)
    return value.device, value.data_ptr(), value.dtype, value.shape, value.stride()


def tied(data: Mapping[str, Any]) -> dict[str, str]:
    """Return the constants that share an earlier constant's memory, each with that constant."""
    first: dict[Any, str] = {}
    plain = {n: value for n, value in data.items() if type(value) in PLAIN and value.numel()}
    owners = {n: first.setdefault((v.device, v.data_ptr()), n) for n, v in plain.items()}
    return {name: owner for name, owner in owners.items() if owner != name}


def unused(name: str, program: Program, buffers: Container[str]) -> str:
    """Return a name that no buffer, symbol or object has: the given one, or with underscores."""
    while name in buffers or name in program.symbols or name in program.objects:
        name += "_"
    return name
