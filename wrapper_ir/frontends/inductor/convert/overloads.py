"""Resolves an op's overload when a number stands where the schema has a tensor.

Python's dispatcher takes ``mul.Tensor(x, 2)`` and makes a tensor of the number. A program says what
it means instead: the overload that takes a number there computes the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sympy
import torch

from wrapper_ir.frontends.inductor.errors import UnsupportedLineError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["number_overload"]

_NUMBERS = (int, float, complex, sympy.Basic, torch.SymInt, torch.SymFloat)


def number_overload(op: torch._ops.OpOverload, args: Sequence[Any]) -> torch._ops.OpOverload:
    """Return the overload of an op that takes numbers where numbers are given.

    Raises:
        UnsupportedLineError: There is none, so the number would have to become a tensor.
    """
    schema: Any = op._schema.arguments
    positions = [
        index
        for index, (declared, given) in enumerate(zip(schema, args, strict=False))
        if declared.type.kind() == "TensorType" and isinstance(given, _NUMBERS)
    ]
    if not positions:
        return op
    packet: Any = op.overloadpacket
    for name in packet.overloads():
        candidate: torch._ops.OpOverload = getattr(packet, name)
        if _fits(candidate._schema.arguments, schema, positions):
            return candidate
    names = ", ".join(repr(schema[index].name) for index in positions)
    raise UnsupportedLineError(
        kind="call of an op", text=str(op), why=f"a number is given for the tensor {names}"
    )


def _fits(candidate: Sequence[Any], wanted: Sequence[Any], positions: Sequence[int]) -> bool:
    """Return whether the schemas differ only in numbers for tensors at the positions.

    What may only be named in one may be given by position in the other, as ``add``'s ``alpha``.
    """
    if len(candidate) != len(wanted):
        return False
    for index, (one, other) in enumerate(zip(candidate, wanted, strict=True)):
        kind = "NumberType" if index in positions else other.type.kind()
        if one.name != other.name or one.type.kind() != kind:
            return False
    return True
