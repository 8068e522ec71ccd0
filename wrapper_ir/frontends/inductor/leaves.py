"""Arguments and results of an exported program that are no tensors.

``torch.export`` takes numbers, strings and None on both sides and writes them down as what they
are. Inductor knows integers, some floats and None. What it does not know is left out of the graph
that it gets, and comes back into the program where that has a form for it. A string has none: it
has decided what was exported and is no input any more, as in packages of AOTInductor's.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from wrapper_ir.frontends.inductor.errors import CaptureError
from wrapper_ir.lines.args import ScalarValue
from wrapper_ir.lines.control import ScalarInput
from wrapper_ir.lines.program import FrozenMap, SymbolKind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wrapper_ir.lines.program import Program

__all__ = ["checked_examples", "take_numbers", "take_strings", "with_numbers", "with_truth_values"]

_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)


def checked_examples(examples: Sequence[Any]) -> tuple[Any, ...]:
    """Return example arguments as Inductor takes them: truth values as integers.

    Raises:
        CaptureError: One is neither a tensor nor a number.
    """
    for value in examples:
        if not isinstance(value, (torch.Tensor, int, float, type(None), *_SYMBOLIC)):
            shown = f"{value!r}" if isinstance(value, complex) else "one"
            raise CaptureError(
                problem=f"an argument is of type {type(value).__name__} ({shown}), and a program "
                "takes tensors, integers, floats, truth values and strings",
                hint="give it to the model beforehand, in a function that takes the tensors only",
            )
    return tuple(int(value) if isinstance(value, bool) else value for value in examples)


def take_strings(module: torch.fx.GraphModule, examples: Sequence[Any]) -> list[Any]:
    """Take the strings out of a graph's inputs, and return the examples of those that are left.

    Ahead of time Inductor is handed None for an example that is no tensor; the graph tells then.
    """
    left = []
    placeholders = module.graph.find_nodes(op="placeholder")
    for node, value in zip(placeholders, examples, strict=True):
        if isinstance(value, str) or isinstance(node.meta.get("val"), str):
            module.graph.erase_node(node)
        else:
            left.append(value)
    return left


def take_numbers(module: torch.fx.GraphModule) -> dict[int, float]:
    """Take the floats out of a graph's results, and return them by position.

    Arguments that are truth values become integers, like the examples.

    Raises:
        CaptureError: A result is neither a tensor nor a number nor None.
    """
    for node in module.graph.find_nodes(op="placeholder"):
        if isinstance(node.meta.get("val"), bool):
            node.meta["val"] = int(node.meta["val"])
    (output,) = module.graph.find_nodes(op="output")
    results = list(output.args[0])
    found = {}
    for position, value in enumerate(results):
        if isinstance(value, float):
            found[position], results[position] = value, None
        elif not isinstance(value, (torch.fx.Node, int, type(None))):
            raise CaptureError(
                problem=f"result {position} is the {type(value).__name__} {value!r}, and a program "
                "returns tensors and numbers",
                hint="return it from a function around the compiled program",
            )
    output.args = (tuple(results),)
    return found


def with_truth_values(program: Program, examples: Sequence[Any]) -> Program:
    """Return the program with truth values where the examples have some, not integers.

    They are part of what was exported: each is asserted to be that of the example.
    """
    symbols = dict(program.symbols)
    for item, value in zip(program.inputs, examples, strict=True):
        if isinstance(value, bool) and isinstance(item, ScalarInput):
            symbols[item.symbol] = replace(symbols[item.symbol], kind=SymbolKind.BOOL)
    return program.replace(symbols=FrozenMap(symbols))


def with_numbers(program: Program, numbers: Mapping[int, float]) -> Program:
    """Return the program with numbers in the places of its results that they were taken from."""
    if not numbers:
        return program
    results = list(program.results)
    for position, number in numbers.items():
        results[position] = ScalarValue(number)
    return program.replace(results=tuple(results))
