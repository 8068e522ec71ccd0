"""Programs that share one file of constants: each gets a table that describes the whole file.

A library finds its constants by a table of places that was compiled into it. So that several find
theirs in one file, every program is given the constants of all, in one order: its own by its own
names, and those of others beside them, which it never looks at. What has the same bytes is there
once. Torch's own loaders then take such a package as any other.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, NamedTuple

from wrapper_ir.aot.data import group_bytes, memory_of
from wrapper_ir.emitters.cpp.constants import constant_table
from wrapper_ir.errors import UnsupportedError
from wrapper_ir.lines.layout import DType, Layout
from wrapper_ir.lines.program import Constant, ConstantKind, FrozenMap

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from wrapper_ir.lines.program import Program


class _Key(NamedTuple):
    """Bytes that programs may share. Two constants of one program are never the same memory."""

    digest: bytes
    size: int
    occurrence: int


def with_shared_constants(programs: Sequence[Program]) -> list[Program]:
    """Returns programs whose constants are laid out alike, in one file for all.

    Raises:
        UnsupportedError: One has objects of custom classes, which belong to one program alone.
        ConstantValueError: The value of a constant is missing, or does not fit.
    """
    for program in programs:
        if program.objects:
            raise UnsupportedError(
                what=f"the object '{next(iter(program.objects))}' of program {program.name!r}",
                where="a package of several programs",
                hint="export it into a package of its own",
            )
    own = [_roots(program) for program in programs]
    values: dict[_Key, Any] = {}
    for roots in own:
        for key, (_, value) in roots.items():
            values.setdefault(key, value)
    return [
        _with_others(program, {key: name for key, (name, _) in roots.items()}, values)
        for program, roots in zip(programs, own, strict=True)
    ]


def _roots(program: Program) -> dict[_Key, tuple[str, Any]]:
    """Return the constants that have bytes of their own: their names, and those bytes."""
    import torch  # noqa: PLC0415 - values are its tensors, so it is there

    found: dict[_Key, tuple[str, Any]] = {}
    for root, value in group_bytes(program, constant_table(program)):
        with memory_of(value) as memory:
            digest = hashlib.sha256(memory).digest()
        seen = sum(key.digest == digest for key in found)
        found[_Key(digest, root.data_bytes, seen)] = root.name, value.flatten().view(torch.uint8)
    return found


def _with_others(program: Program, own: dict[_Key, str], values: dict[_Key, Any]) -> Program:
    """Return a program with the constants of all, in their order; packed ones have no bytes."""
    groups: dict[str, list[str]] = {}
    for name, constant in program.constants.items():
        groups.setdefault(constant.tied_to or name, []).append(name)
    without_bytes = [name for name in groups if name not in own.values()]
    made = {name: program.constants[name] for root in without_bytes for name in groups[root]}
    buffers, data = dict(program.buffers), dict(program.data)
    for index, (key, value) in enumerate(values.items()):
        if key in own:
            made |= {name: program.constants[name] for name in groups[own[key]]}
            continue
        name = _free(f"shared_{index}", program.buffers)
        made[name] = Constant(name, ConstantKind.TENSOR)
        buffers[name] = Layout.contiguous(DType.UINT8, (key.size,))
        data[name] = value
    return program.replace(constants=FrozenMap(made), buffers=FrozenMap(buffers), data=data)


def _free(name: str, taken: Iterable[str]) -> str:
    while name in taken:
        name += "_"
    return name
