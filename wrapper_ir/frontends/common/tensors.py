"""The names of a model's tensors besides those of a program's constants."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from wrapper_ir.lines.program import Constant, ConstantKind, FrozenMap, Program

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping


def with_other_names(
    program: Program,
    values: Mapping[str, Any],
    kinds: Mapping[str, ConstantKind],
    folded: Collection[str] = (),
) -> Program:
    """Return the program with what loaders need to know about all of a model's tensors.

    Further names of a constant's tensor become constants that are tied to it, so that any of these
    names stands for it. The names of tensors that the program does not need are noted.

    Args:
        program: The program, with the values of its constants.
        values: The model's tensors by qualified name; anything else is ignored.
        kinds: The kinds of those that are a parameter or a buffer.
        folded: The names of tensors whose values are part of other constants. Whoever passes new
            values for them has to be told that the program would not use them.
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
        name = _free_name(qualified, program, layouts)
        kind = kinds.get(qualified, ConstantKind.TENSOR)
        constants[name] = Constant(qualified, kind, tied_to=constants[same].tied_to or same)
        layouts[name], data[name] = layouts[same], data[same]
    return program.replace(
        constants=FrozenMap(constants),
        buffers=FrozenMap(layouts),
        data=data,
        unread=tuple(unread),
    )


def renamed(program: Program, names: Mapping[str, str]) -> Program:
    """Return the program with other names of the model's tensors."""
    constants = {
        name: replace(each, qualified_name=names.get(each.qualified_name, each.qualified_name))
        for name, each in program.constants.items()
    }
    unread = tuple(names.get(name, name) for name in program.unread)
    folding = None if program.folding is None else renamed(program.folding, names)
    return program.replace(constants=FrozenMap(constants), unread=unread, folding=folding)


def memory_key(value: Any) -> object:
    """Return a key that is equal for tensors with the same layout in the same memory."""
    is_plain = type(value) in (torch.Tensor, torch.nn.Parameter) and value.layout == torch.strided
    if not is_plain or not value.numel():
        return id(value)
    return value.device, value.data_ptr(), value.dtype, value.shape, value.stride()


def _free_name(qualified: str, program: Program, layouts: Mapping[str, Any]) -> str:
    """Return a name for a buffer after a tensor's name in the model."""
    name = re.sub(r"\W", "_", qualified, flags=re.ASCII)
    name = name if name[:1].isalpha() else f"_{name}"
    while name in layouts or name in program.symbols or name in program.objects:
        name += "_"
    return name
