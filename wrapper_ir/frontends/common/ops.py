"""Ops of torch's registry: their declarations, overloads and plain arguments in our terms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import sympy
import torch

from wrapper_ir.lines.args import Arg, DeviceArg, EnumArg, EnumKind, StringArg
from wrapper_ir.lines.kernels import TorchOp
from wrapper_ir.lines.layout import Device

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wrapper_ir.build.draft import ProgramDraft

SYMBOLIC: Final = (torch.SymInt, torch.SymFloat, torch.SymBool)
"""Torch's symbolic numbers."""

_NUMBERS: Final = (bool, int, float, complex, sympy.Basic, *SYMBOLIC)
_TENSORS: Final = ("Tensor", "Optional[Tensor]")


class NoOverloadError(Exception):
    """A number is given where an op takes tensors only. Never leaves a front end.

    Attributes:
        names: The arguments, each in quotes.
    """

    def __init__(self, names: str) -> None:
        super().__init__("a number is given for a tensor, and no overload takes one")
        self.names = names


def to_device(device: torch.device) -> Device:
    """Return the device; a CPU has no index."""
    return Device(device.type, None if device.type == "cpu" else device.index)


def plain_argument(value: Any) -> Arg | None:
    """Return an argument of a kind that is neither a tensor, a number nor a dtype, if it is one."""
    match value:
        case str():
            return StringArg(value)
        case torch.device():
            return DeviceArg(to_device(value))
        case torch.layout():
            return EnumArg(EnumKind.LAYOUT, str(value).removeprefix("torch."))
        case torch.memory_format():
            return EnumArg(EnumKind.MEMORY_FORMAT, str(value).removeprefix("torch."))
        case _:
            return None


def declare(draft: ProgramDraft, op: Any) -> str:
    """Return the name of an op, after declaring it where that was not done."""
    return draft.declare(str(op.name()), TorchOp(str(op._schema)))  # noqa: SLF001 - its only text


def number_overload(op: Any, args: Sequence[Any]) -> Any:
    """Return the overload of an op that takes numbers where numbers are given for tensors.

    Python's dispatcher takes ``mul.Tensor(x, 2)`` and makes a tensor of the number. A program says
    what it means instead: the overload that takes a number there computes the same.

    Raises:
        NoOverloadError: There is none, so the number would have to become a tensor.
    """
    wanted = op._schema.arguments  # noqa: SLF001 - where torch tells types
    positions = [
        index
        for index, (declared, given) in enumerate(zip(wanted, args, strict=False))
        if str(declared.type) in _TENSORS and isinstance(given, _NUMBERS)
    ]
    if not positions:
        return op
    for name in op.overloadpacket.overloads():
        candidate = getattr(op.overloadpacket, name)
        if _fits(candidate._schema.arguments, wanted, positions):  # noqa: SLF001 - as above
            return candidate
    raise NoOverloadError(", ".join(repr(wanted[index].name) for index in positions))


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
