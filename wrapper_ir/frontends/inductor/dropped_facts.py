"""Facts of an exported program that Inductor drops and its captured program gets back.

These are values that are not tensors, assumptions on sizes, and the recipes of frozen parameters.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import sympy
import torch

from wrapper_ir import lines
from wrapper_ir.build.draft import range_checks
from wrapper_ir.frontends.common.exported import PLAIN, Range, memory_key, unused
from wrapper_ir.frontends.common.expressions import is_about_layout, to_scalar
from wrapper_ir.frontends.common.ops import SYMBOLIC
from wrapper_ir.frontends.inductor.compat import ConstantFolder
from wrapper_ir.frontends.inductor.convert.values import tensor_layout
from wrapper_ir.frontends.inductor.errors import CaptureError
from wrapper_ir.lines import expr as ours
from wrapper_ir.lines.program import PACKING_OPS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from wrapper_ir.frontends.inductor.export_guards import Guard


# Arguments and results that are not tensors.
#
# ``torch.export`` takes and returns numbers, strings and None, and records them as constants.
# Inductor supports integers, some floats and None. The rest is removed from the graph before
# Inductor sees it, and put back into the program if it has a form there. A string has none: the
# export depends on its value and it is no longer an input, just as in AOTInductor's packages.


def checked_examples(examples: Sequence[Any]) -> tuple[Any, ...]:
    """Return example arguments, tensors and numbers, as Inductor takes them: booleans as ints."""
    for value in examples:
        if not isinstance(value, (torch.Tensor, int, float, type(None), *SYMBOLIC)):
            shown = f"{type(value).__name__} ({value!r})" if isinstance(value, complex) else ""
            given = f"an argument has the type {shown or type(value).__name__}"
            taken = "a program takes only tensors, integers, floats, booleans and strings"
            hint = "bind it beforehand, in a function that takes only the tensors"
            raise CaptureError(problem=f"{given}, but {taken}", hint=hint)
    return tuple(int(value) if isinstance(value, bool) else value for value in examples)


def take_strings(module: torch.fx.GraphModule, examples: Sequence[Any]) -> list[Any]:
    """Remove the strings from a graph's inputs, and return the examples of the remaining ones.

    Ahead of time Inductor gets None for an example that is not a tensor, so the graph is asked too.
    """
    remaining = []
    placeholders = module.graph.find_nodes(op="placeholder")
    for node, value in zip(placeholders, examples, strict=True):
        if isinstance(value, str) or isinstance(node.meta.get("val"), str):
            module.graph.erase_node(node)
        else:
            remaining.append(value)
    return remaining


def take_numbers(module: torch.fx.GraphModule) -> dict[int, float]:
    """Remove the floats from a graph's results, and return them by position.

    Boolean arguments become integers, like the examples.
    """
    for node in module.graph.find_nodes(op="placeholder"):
        if isinstance(node.meta.get("val"), bool):
            node.meta["val"] = int(node.meta["val"])
    (output,) = module.graph.find_nodes(op="output")
    results = list(output.args[0])
    floats = {}
    for position, value in enumerate(results):
        if isinstance(value, float):
            floats[position], results[position] = value, None
        elif not isinstance(value, (torch.fx.Node, int, type(None))):
            given = f"result {position} is the {type(value).__name__} {value!r}"
            hint = "return it from a function around the compiled program"
            problem = f"{given}, but a program returns only tensors and numbers"
            raise CaptureError(problem=problem, hint=hint)
    output.args = (tuple(results),)
    return floats


def with_truth_values(program: lines.Program, examples: Sequence[Any]) -> lines.Program:
    """Return the program with boolean inputs where the examples have booleans, not integers.

    Their values are part of the export: each is asserted to equal the example's.
    """
    symbols = dict(program.symbols)
    for item, value in zip(program.inputs, examples, strict=True):
        if isinstance(value, bool) and isinstance(item, lines.ScalarInput):
            symbols[item.symbol] = replace(symbols[item.symbol], kind=lines.SymbolKind.BOOL)
    return program.replace(symbols=lines.FrozenMap(symbols))


def with_numbers(program: lines.Program, numbers: Mapping[int, float]) -> lines.Program:
    """Return the program with the numbers back at the positions that ``take_numbers`` removed."""
    results = enumerate(program.results)
    return program.replace(
        results=tuple(
            lines.ScalarValue(numbers[i]) if i in numbers else value for i, value in results
        )
    )


# Inductor's assumptions on sizes beyond what an exported program promises.
#
# Inductor may decide something by the example's sizes and record the decision as a guard. Under
# ``torch.compile`` a failing guard triggers a recompile. Ahead of time there is none, and the guard
# silently narrows the symbol's range. Here the ranges stay as they were exported, and each guard
# becomes a check in the program. What only chose between right ways is no guard: see ``choices``.


def noted_guards(env: Any, names: Mapping[str, str], start: int = 0) -> list[Guard]:
    """Return the guards in a shape environment (None: no guards) as conditions, from the first on.

    For an exported program that is captured again, the guards of the first capture count too.
    ``names`` are better names for symbols, used in messages; conditions keep torch's names.
    """
    return [
        (to_scalar(env.replace(guard.expr)), f"{_named(guard.expr, names)}, as Inductor assumed")
        for guard in (env.guards[start:] if env is not None else ())
        if not is_about_layout(guard)
    ]


def _named(expr: Any, names: Mapping[str, str]) -> Any:
    symbols = [each for each in expr.free_symbols if each.name in names]
    return expr.xreplace({each: sympy.Symbol(names[each.name]) for each in symbols})


def with_guards(program: lines.Program, guards: Sequence[Guard]) -> lines.Program:
    """Return the program with a check for each condition, placed where sizes are first known."""
    distinct = reversed(dict(reversed(guards)).items())
    checks = [lines.AssertSymbol(*guard) for guard in distinct if guard[0] is not True]
    at = _after_sizes(program)
    return program.replace(body=(*program.body[:at], *checks, *program.body[at:]))


def _after_sizes(program: lines.Program) -> int:
    """Return the index of the first line after those that find the symbols in the inputs' sizes."""
    body = program.body
    at = max((index + 1 for index, _ in _sizes(program)), default=0)
    while at < len(body) and isinstance(body[at], (lines.AssertSymbol, lines.ComputeSymbol)):
        at += 1
    return at


def _sizes(program: lines.Program) -> Iterator[tuple[int, lines.BindSymbol]]:
    """Yield the lines that bind a symbol to a size or a stride of an input, with their indices."""
    inputs = {value.name for value in program.inputs if isinstance(value, lines.BufferInput)}
    for index, line in enumerate(program.body):
        if isinstance(line, lines.BindSymbol) and line.source.buffer in inputs:
            yield index, line


def with_exported_ranges(
    program: lines.Program, ranges: Mapping[str, Range], least: Mapping[str, int]
) -> lines.Program:
    """Return the program with the ranges of the export, from the ``least`` values on if given.

    Those of symbols that sizes are get checked with the sizes, those that are computed from sizes
    here.
    """
    symbols = dict(program.symbols)
    checks: dict[str, list[lines.AssertSymbol]] = {}
    for name, (lower, upper) in ranges.items():
        if name in symbols:
            lower = max(lower or 0, least[name]) if name in least else lower
            symbols[name] = replace(symbols[name], lower=lower, upper=upper)
            checks[name] = range_checks(ours.symbol(name), lower, upper, name)
    at = _after_sizes(program)
    body: list[lines.AnyLine] = []
    for line in program.body[:at]:
        body.append(line)
        if isinstance(line, lines.ComputeSymbol):
            body += checks.get(line.symbol, ())
    return program.replace(symbols=lines.FrozenMap(symbols), body=(*body, *program.body[at:]))


def without_bounds(program: lines.Program, *, lower: bool, upper: bool) -> lines.Program:
    """Return the program with sizes and strides of inputs that may be smaller, or larger.

    Nothing checks a bound that a program does not have, and nothing relies on it.
    """
    symbols = dict(program.symbols)
    for _, line in _sizes(program):
        info = symbols[line.symbol]
        least = 0 if lower and info.lower is not None else info.lower
        symbols[line.symbol] = replace(info, lower=least, upper=None if upper else info.upper)
    return program.replace(symbols=lines.FrozenMap(symbols))


# Frozen parameters: recipes for the packed ones, so that another machine can make them again.
#
# Under ``freezing`` Inductor computes what depends on parameters alone, including oneDNN's packing
# of weights, and keeps the results. Only the libraries of this torch understand a packed weight,
# but its source is an ordinary tensor; that is recorded while Inductor folds.


class PackedBy(NamedTuple):
    """Origin of a packed tensor: an op and its arguments, some of them tensors."""

    op: str
    args: tuple[Any, ...]
    made: torch.Tensor  # kept alive, so that its id stays unique
    position: int | None = None  # among several results of the op


@contextmanager
def noted_packing() -> Iterator[dict[int, PackedBy]]:
    """Record the packed tensors that Inductor makes in the block, by identity."""
    packed: dict[int, PackedBy] = {}
    folder: Any = ConstantFolder
    original = folder.run_node

    def run_node(self: Any, node: torch.fx.Node) -> Any:
        is_op = isinstance(node.target, (torch._ops.OpOverload, torch._ops.OpOverloadPacket))
        args, kwargs = self.fetch_args_kwargs_from_env(node) if is_op else ((), {})
        result = original(self, node)
        if is_op and not kwargs:
            name = str(node.target).replace(".", "::", 1).removesuffix(".default")
            several = enumerate(result) if isinstance(result, (list, tuple)) else ((None, result),)
            for position, each in several:
                if isinstance(each, torch.Tensor) and each.is_mkldnn:
                    packed[id(each)] = PackedBy(name, args, each, position)
        return result

    folder.run_node = run_node
    try:
        yield packed
    finally:
        folder.run_node = original


def with_packing(program: lines.Program, noted: Mapping[int, PackedBy]) -> lines.Program:
    """Return the program with a recipe for each packed constant that any machine can repeat.

    The plain tensors that are packed become constants as well, unless they are already; the packed
    ones come last.
    """
    own = {memory_key(v): n for n, v in program.data.items() if n in program.constants}
    plain: dict[str, lines.Constant] = {}
    packed: dict[str, lines.Constant] = {}
    buffers, data = dict(program.buffers), dict(program.data)

    def add_plain(name: str, value: torch.Tensor) -> str:
        new = unused(f"{name}_plain", program, buffers)
        qualified = program.constants[name].qualified_name
        is_taken = any(constant.qualified_name == qualified for constant in plain.values())
        plain[new] = lines.Constant(new if is_taken else qualified, lines.ConstantKind.TENSOR)
        buffers[new], data[new] = tensor_layout(value), value.detach()
        return new

    def to_arg(name: str, value: Any) -> lines.Arg:
        if isinstance(value, torch.Tensor):
            return lines.BufferArg(own.get(memory_key(value)) or add_plain(name, value))
        if value is None:
            return lines.NoneArg()
        if isinstance(value, (list, tuple)):
            return lines.ListArg(tuple(lines.ScalarArg(int(each)) for each in value))
        return lines.ScalarArg(value)

    for name, constant in program.constants.items():
        by = noted.get(id(program.data.get(name)))
        if constant.kind is not lines.ConstantKind.PACKED or by is None:
            continue
        if by.op in PACKING_OPS and all(map(_is_repeatable, by.args)):
            packing = lines.Packing(by.op, tuple(to_arg(name, arg) for arg in by.args), by.position)
            qualified = f"{constant.qualified_name}.packed"
            packed[name] = replace(constant, qualified_name=qualified, packing=packing)
    kept = {n: constant for n, constant in program.constants.items() if n not in packed}
    return program.replace(
        constants=lines.FrozenMap({**kept, **plain, **packed}),
        buffers=lines.FrozenMap(buffers),
        data=data,
    )


def _is_repeatable(value: object) -> bool:
    """Return whether an argument is a plain tensor, a number, None, or a list of integers."""
    if isinstance(value, torch.Tensor):
        return type(value) in PLAIN and value.layout == torch.strided
    if isinstance(value, (list, tuple)):
        return all(type(each) is int for each in value)
    return value is None or type(value) in (bool, int, float)
