"""Which kernels of two programs are the same, whatever they are called."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from wrapper_ir.diffing.canonical_form import canonical_source
from wrapper_ir.diffing.model import KernelChange, Kind
from wrapper_ir.diffing.sequences import Matcher
from wrapper_ir.diffing.texts import text_changes
from wrapper_ir.lines import CppKernel, KernelDefinition, TorchOp, TritonKernel

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wrapper_ir.diffing.fields import Fields
    from wrapper_ir.lines import Program

__all__ = ["KernelPairs", "match_kernels"]

#: Share of the lines that two kernels must have in common to be one kernel that was changed.
_ALIKE: Final = 0.5

#: How many kernels that are left over are held against each other.
_MOST: Final = 64

#: What Inductor appends to the name of a kernel: its number, or part of a hash.
_SUFFIX: Final = re.compile(r"(?:_(?:\d+|[0-9a-f]{8,}))+\Z")


@dataclasses.dataclass(frozen=True, slots=True)
class KernelPairs:
    """Kernels of two programs, matched.

    Attributes:
        pairs: Definitions that are the same or were changed.
        removed: Those that only the first program has.
        added: Those that only the second has.
    """

    pairs: tuple[tuple[KernelDefinition, KernelDefinition], ...]
    removed: tuple[KernelDefinition, ...]
    added: tuple[KernelDefinition, ...]

    def numbers(self) -> tuple[dict[str, int], dict[str, int]]:
        """A number for each kernel by name, for both programs; matched ones have the same."""
        before = {a.name: number for number, (a, _) in enumerate(self.pairs)}
        after = {b.name: number for number, (_, b) in enumerate(self.pairs)}
        for table, alone in ((before, self.removed), (after, self.added)):
            for kernel in alone:
                table[kernel.name] = -1 - len(before) - len(after)
        return before, after

    def changes(self, fields: Fields) -> Iterator[KernelChange]:
        """What is to be said of them."""
        for a, b in self.pairs:
            change = _change(a, b, fields)
            if change is not None:
                yield change
        yield from (KernelChange(Kind.REMOVED, before=kernel.name) for kernel in self.removed)
        yield from (KernelChange(Kind.ADDED, after=kernel.name) for kernel in self.added)


def match_kernels(before: Program, after: Program) -> KernelPairs:
    """Matches kernels by what they do, then by name, then by how much text they share."""
    a, b = _Side(before), _Side(after)
    matcher = Matcher(len(a.kernels), len(b.kernels))
    for first, second in ((a.same, b.same), (a.name, b.name), (a.stem, b.stem)):
        matcher.in_order(first, second)
        matcher.anywhere(first, second)
    found = matcher.done()
    pairs = [*found.all, *_alike(a, b, found.removed[:_MOST], found.added[:_MOST])]
    taken_a, taken_b = {i for i, _ in pairs}, {j for _, j in pairs}
    return KernelPairs(
        tuple((a.kernels[i], b.kernels[j]) for i, j in sorted(pairs)),
        tuple(a.kernels[i] for i in found.removed if i not in taken_a),
        tuple(b.kernels[j] for j in found.added if j not in taken_b),
    )


class _Side:
    """The kernels of one program, and what they are matched by."""

    def __init__(self, program: Program) -> None:
        found = program.kernels.values()
        self.kernels = [k for k in found if not isinstance(k.source, TorchOp)]
        self.sources: list[Any] = [canonical_source(k.source) for k in self.kernels]
        self.same = [(k.params, s) for k, s in zip(self.kernels, self.sources, strict=True)]
        self.name = [k.name for k in self.kernels]
        self.stem = [_SUFFIX.sub("", k.name) for k in self.kernels]


def _alike(
    a: _Side, b: _Side, left_a: Sequence[int], left_b: Sequence[int]
) -> list[tuple[int, int]]:
    """Pairs of kernels that share much of their text, the most alike first."""
    lines_a = {i: Counter(a.sources[i].code.splitlines()) for i in left_a}
    lines_b = {j: Counter(b.sources[j].code.splitlines()) for j in left_b}
    scores = []
    for i, text_a in lines_a.items():
        for j, text_b in lines_b.items():
            shared = 2 * sum((text_a & text_b).values())
            scores.append((-shared / max(1, text_a.total() + text_b.total()), i, j))
    pairs: dict[int, int] = {}
    for score, i, j in sorted(scores):
        if -score >= _ALIKE and i not in pairs and j not in pairs.values():
            pairs[i] = j
    return list(pairs.items())


def _change(a: KernelDefinition, b: KernelDefinition, fields: Fields) -> KernelChange | None:
    found = [*fields.of(a.params, b.params, "params")]
    old, new = a.source, b.source
    code_a, code_b = _code(a), _code(b)
    if type(old) is type(new):
        plain = dataclasses.replace(_bare(old), code="", entry="")
        found += fields.of(plain, dataclasses.replace(_bare(new), code="", entry=""))
    else:
        found += fields.of(type(old).__name__, type(new).__name__, "source")
    code = text_changes(code_a, code_b)
    if not found and not code:
        return None
    return KernelChange(Kind.CHANGED, a.name, b.name, tuple(found), code)


def _bare(source: Any) -> CppKernel | TritonKernel:
    assert isinstance(source, (CppKernel, TritonKernel))
    return source


def _code(kernel: KernelDefinition) -> list[str]:
    source = canonical_source(kernel.source)
    assert not isinstance(source, TorchOp)
    return source.code.splitlines()
