"""Arguments that share memory, for programs that are wrong for some of them.

Two tensors share memory if an element of one has a byte in common with an element of the other.
Their addresses are sums: a start, and for each dimension a stride times an index. So they share
memory if the distance of the starts is such a sum, with the strides of both and, for each, a range
of factors. Strides mostly nest (each is longer than all shorter ones reach), so that a greedy
search from the longest on hardly ever has a choice.
"""

from __future__ import annotations

import itertools
import math
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from wrapper_ir.errors import WrapperIRError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

#: Steps of a search; a pair of tensors that takes more counts as one that shares memory.
_MOST_STEPS: Final = 1000


class SharedMemoryError(WrapperIRError, ValueError):
    """A program that writes to an input was given another one that shares its memory.

    Fields: ``written`` is the name of the input that it writes to, ``other`` that of the other.
    """

    code = "WIR2158"
    template = (
        "inputs '{written}' and '{other}' share memory, and the program writes to '{written}'"
    )
    default_hint = "pass a copy of one of them: the program takes them for separate tensors"


def check_apart(names: Sequence[str], written: int, *tensors: Tensor) -> None:
    """Return if each of the first ``written`` tensors shares memory with no other tensor.

    ``names`` are those of the tensors in errors. It costs about 0.3 us a tensor while all have
    memory of their own.

    Raises:
        SharedMemoryError: One of them shares memory with another.
    """
    memories = sorted(
        (storage.data_ptr(), storage.nbytes())
        for storage in (tensor.untyped_storage() for tensor in tensors)
    )
    if all(begin + size <= next_one for (begin, size), (next_one, _) in pairwise(memories)):
        return
    spans = [span(tensor) for tensor in tensors]
    for position, one in enumerate(tensors[:written]):
        for number, other in enumerate(tensors[position + 1 :], position + 1):
            may_meet = meet(spans[position], spans[number]) and one.device == other.device
            if may_meet and share_memory(one, other):
                raise SharedMemoryError(written=names[position], other=names[number])


def elements(size: Sequence[int], stride: Sequence[int]) -> int:
    """Return the number of elements from a tensor's first to its last."""
    if 0 in size:
        return 0
    return 1 + sum((n - 1) * step for n, step in zip(size, stride, strict=True))


def extent(tensor: Tensor) -> int:
    """Return the number of bytes from a tensor's first element to the end of its last."""
    return elements(tensor.shape, tensor.stride()) * tensor.element_size()


def span(tensor: Tensor) -> tuple[int, int]:
    """Return the addresses at which a tensor begins and ends; equal ones if it is empty."""
    start = tensor.data_ptr()
    return start, start + extent(tensor)


def meet(one: tuple[int, int], other: tuple[int, int]) -> bool:
    """Return whether two spans have an address in common."""
    return one[0] < other[1] and other[0] < one[1]


def share_memory(one: Tensor, other: Tensor) -> bool:
    """Return whether two tensors that have elements share a byte."""
    factors: dict[int, tuple[int, int]] = {}
    for tensor, sign in ((one, 1), (other, -1)):
        item = tensor.element_size()
        steps = [step * item for step in tensor.stride()]
        for count, step in ((item, 1), *zip(tensor.shape, steps, strict=True)):
            low, high = factors.get(step, (0, 0))
            reach = sign * (count - 1)
            factors[step] = (low + min(reach, 0), high + max(reach, 0))
    terms = sorted(((step, *ends) for step, ends in factors.items() if step), reverse=True)
    return _can_be(other.data_ptr() - one.data_ptr(), terms)


def _can_be(distance: int, terms: Sequence[tuple[int, int, int]]) -> bool:
    """Return whether a sum of steps, the longest first, each times a factor, can be a number.

    A term is a step, and the least and the greatest factor of it.
    """
    # What the terms from each one on add up to: the least, the greatest, and the divisor.
    rest = [(0, 0, 0)]
    for step, low, high in reversed(terms):
        least, greatest, divisor = rest[-1]
        rest.append((least + step * low, greatest + step * high, math.gcd(divisor, step)))
    rest.reverse()
    steps = itertools.count(1)

    def finds(wanted: int, position: int) -> bool:
        """Return whether the terms from a position on can add up to a number."""
        least, greatest, divisor = rest[position]
        if next(steps) > _MOST_STEPS:
            return True
        if not least <= wanted <= greatest or (divisor and wanted % divisor):
            return False
        if position == len(terms):
            return True
        step, low, high = terms[position]
        least, greatest, _ = rest[position + 1]
        first = max(low, -((greatest - wanted) // step))
        last = min(high, (wanted - least) // step)
        return any(finds(wanted - step * n, position + 1) for n in range(first, last + 1))

    return finds(distance, 0)
