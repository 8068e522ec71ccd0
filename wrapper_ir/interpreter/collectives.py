"""What collectives compute: the tensors of all members go in, those of each member come out."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Final

import torch
from torch import Tensor

from wrapper_ir.analysis.collectives import Kind
from wrapper_ir.errors import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from wrapper_ir.analysis.collectives import Collective

_REDUCTIONS: Final[Mapping[str, Callable[[Tensor, Tensor], Tensor]]] = {
    "sum": torch.add,
    "avg": torch.add,
    "product": torch.mul,
    "min": torch.minimum,
    "max": torch.maximum,
    "band": torch.bitwise_and,
    "bor": torch.bitwise_or,
    "bxor": torch.bitwise_xor,
}

_PROTOCOLS: Final[Mapping[Kind, tuple[str, ...]]] = {
    Kind.ALL_REDUCE: ("", "one_shot", "two_shot", "multimem", "multimem_one_shot"),
    Kind.ALL_GATHER: ("", "low_contention", "multicast", "multimem"),
    Kind.REDUCE_SCATTER: ("", "low_contention"),
    Kind.ALL_TO_ALL: ("", "nvshmem"),
    Kind.BROADCAST: ("", "nvshmem"),
    Kind.MESSAGES: ("",),
}
"""The ways of talking whose results are those of the plain op."""


def refuse_unknown(facts: Collective, reduction: str) -> None:
    """Refuse what is not computed here.

    Raises:
        UnsupportedError: The op, or its reduction.
    """
    if facts.protocol not in _PROTOCOLS.get(facts.kind, ()):
        raise UnsupportedError(what=facts.op, where="a run of several ranks")
    if reduction and reduction not in _REDUCTIONS:
        raise UnsupportedError(what=f"the reduction {reduction!r}", where="a run of several ranks")


def size_of_result(kind: Kind, given: Tensor, members: int, rows: int | None) -> list[int]:
    """Return the size of what a collective makes of a tensor; ``rows`` are those that come."""
    size = list(given.shape)
    if kind is Kind.ALL_GATHER:
        return [members * (size[0] if size else 1), *size[1:]]
    if kind is Kind.REDUCE_SCATTER:
        return [size[0] // members, *size[1:]]
    return size if rows is None else [rows, *size[1:]]


def reduced(given: Sequence[Tensor], reduction: str) -> Tensor:
    """Return the tensors of all members as one, taken in the order of the group."""
    found = reduce(_REDUCTIONS[reduction], given)
    if reduction != "avg":
        return found
    is_whole = not (found.is_floating_point() or found.is_complex())
    return torch.div(found, len(given), rounding_mode="floor" if is_whole else None)


def results(
    kind: Kind,
    given: Sequence[Sequence[Tensor]],
    member: int,
    reduction: str,
    root: int,
    splits: Sequence[Sequence[int]],
) -> list[Tensor]:
    """Return the elements that a member gets, as a flat tensor for each that it gave.

    Args:
        kind: The collective.
        given: The tensors of each member.
        member: The one that gets them.
        reduction: Its reduction, if there is one.
        root: The member that all get it from, if there is one.
        splits: For an uneven all-to-all, the rows that each member gives to each.
    """
    found = []
    for position in range(len(given[member])):
        flat = [tensors[position].reshape(-1) for tensors in given]
        match kind:
            case Kind.ALL_REDUCE:
                found.append(reduced(flat, reduction))
            case Kind.ALL_GATHER:
                found.append(torch.cat(flat))
            case Kind.REDUCE_SCATTER:
                found.append(reduced(flat, reduction).chunk(len(given))[member])
            case Kind.BROADCAST:
                found.append(flat[root].clone())
            case _:
                found.append(torch.cat(list(_rows(flat, member, splits))))
    return found


def _rows(flat: Sequence[Tensor], member: int, splits: Sequence[Sequence[int]]) -> list[Tensor]:
    """Return what each member gives to one of them."""
    found = []
    for tensor, rows in zip(flat, splits, strict=True):
        parts = rows or [1] * len(flat)
        each = tensor.numel() // max(sum(parts), 1)
        found.append(torch.split(tensor, [n * each for n in parts])[member])
    return found
