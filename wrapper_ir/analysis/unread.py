"""Arguments whose values an op does not read, in certain modes.

Schemas do not say this. The table says it of ops that get more than they need, as PyTorch's own
implementations on all devices have it: ``ATen/native/EmbeddingBag.cpp`` and
``ATen/native/cuda/EmbeddingBag.cu`` for the backward of embedding bags. The layouts of such
arguments are read all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

import wrapper_ir.lines as ir
from wrapper_ir.analysis.ops import schema_of
from wrapper_ir.lines.traits import calls_op

#: Given the arguments of a call by name, and the layouts of the buffers among them, returns the
#: names of those that are not read.
_Rule: TypeAlias = Callable[[Mapping[str, ir.Arg], Mapping[str, ir.Layout]], frozenset[str]]

_SUM: Final = ir.ScalarArg(0)
_MAX: Final = ir.ScalarArg(2)


def _of_bags(given: Mapping[str, ir.Arg], layouts: Mapping[str, ir.Layout]) -> frozenset[str]:
    """Return what the backward of an embedding bag does not read.

    Sums need no sizes of bags, and maxima remember their indices. Which bag each index is in is
    made of the offsets where it is not given, because it has no elements.
    """
    mode = given.get("mode")
    found = {"indices", "offset2bag"} if mode == _MAX else {"maximum_indices"}
    if mode == _SUM:
        found.add("bag_size")
    bags = layouts.get("offset2bag")
    if mode == _MAX or (bags is not None and bags.is_static and bags.numel):
        found.add("offsets")
    return frozenset(found)


_RULES: Final[Mapping[str, _Rule]] = {
    "aten::_embedding_bag_backward": _of_bags,
    "aten::_embedding_bag_dense_backward": _of_bags,
}


def unread_arguments(program: ir.Program, line: ir.AnyLine) -> frozenset[int]:
    """Return the positions of a line's arguments whose values the op does not read."""
    if not calls_op(line) or line.op not in _RULES:
        return frozenset()
    schema = schema_of(program, line.op)
    given = schema.given(line.args, line.kwargs)
    buffers = ((name, arg) for name, arg in given.items() if isinstance(arg, ir.BufferArg))
    layouts = {name: program.layout(arg.buffer) for name, arg in buffers}
    names = _RULES[line.op](given, layouts)
    positional = (parameter.name for parameter in schema.positional)
    return frozenset(n for n, name in enumerate(positional) if name in names)
