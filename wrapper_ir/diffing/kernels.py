"""The kernels of two programs, matched whatever they are called."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from wrapper_ir.diffing.canonical_form import canonical_source
from wrapper_ir.diffing.model import FieldChange, KernelChange, Kind
from wrapper_ir.diffing.sequences import Matcher, Pairs
from wrapper_ir.diffing.sources import text_changes
from wrapper_ir.lines import TorchOp

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wrapper_ir.diffing.fields import Fields
    from wrapper_ir.lines import KernelDefinition, Program

#: Share of the lines that two kernels must have in common to be one kernel that was changed.
_ALIKE: Final = 0.5

#: How many kernels that are left over are held against each other.
_MOST: Final = 64

#: The end of a kernel's name, which Inductor appends: its number, or part of a hash.
_SUFFIX: Final = re.compile(r"(?:_(?:\d+|[0-9a-f]{8,}))+\Z")


class Kernels:
    """The kernels of two programs, matched by what they do, by name, then by shared text.

    Args:
        before: The first program.
        after: The second.
    """

    def __init__(self, before: Program, after: Program) -> None:
        sides = self._a, self._b = _Side(before), _Side(after)
        matcher = Matcher(*(len(side.kernels) for side in sides))
        for columns in zip(*(side.columns for side in sides), strict=True):
            matcher.in_order(*columns)
            matcher.anywhere(*columns)
        left = matcher.done()
        matcher.add(_alike(*sides, left.removed[:_MOST], left.added[:_MOST]))
        self._match = matcher.done()

    def names(self) -> dict[str, str]:
        """Return the names of the first program's kernels in the second."""
        a, b = self._a.kernels, self._b.kernels
        return {a[i].name: b[j].name for i, j in self._match.all}

    def numbers(self) -> tuple[dict[str, int], dict[str, int]]:
        """Return a number for each kernel by name, for both programs; matched ones share it."""
        before, after = {}, {}
        for number, (_, i, j) in enumerate(self._match.fates()):
            if i is not None:
                before[self._a.kernels[i].name] = number
            if j is not None:
                after[self._b.kernels[j].name] = number
        return before, after

    def changes(self, fields: Fields) -> Iterator[KernelChange]:
        """Yield the kernels that only one program has, or that are not the same in both."""
        for kind, i, j in self._match.fates():
            if i is None or j is None:
                old = "" if i is None else self._a.kernels[i].name
                yield KernelChange(kind, old, "" if j is None else self._b.kernels[j].name)
                continue
            a, b = self._a.kernels[i], self._b.kernels[j]
            parts = tuple(_parts(a, b, fields))
            code = text_changes(self._a.texts[i], self._b.texts[j])
            if parts or code:
                yield KernelChange(Kind.CHANGED, a.name, b.name, parts, code)


class _Side:
    """The kernels of one program, and the columns of keys that they are matched by."""

    def __init__(self, program: Program) -> None:
        found = program.kernels.values()
        self.kernels = [k for k in found if not isinstance(k.source, TorchOp)]
        sources: list[Any] = [canonical_source(kernel.source) for kernel in self.kernels]
        self.texts = [source.code.splitlines() for source in sources]
        names = [kernel.name for kernel in self.kernels]
        params = (kernel.params for kernel in self.kernels)
        stems = [_SUFFIX.sub("", name) for name in names]
        self.columns = (list(zip(params, sources, strict=True)), names, stems)


def _alike(a: _Side, b: _Side, left_a: Sequence[int], left_b: Sequence[int]) -> Pairs:
    """Return pairs of kernels that share much of their text, the most alike first."""
    lines_a = {i: Counter(a.texts[i]) for i in left_a}
    lines_b = {j: Counter(b.texts[j]) for j in left_b}
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


def _parts(a: KernelDefinition, b: KernelDefinition, fields: Fields) -> Iterator[FieldChange]:
    """Yield the parameters and options that are not the same; texts are compared by line."""
    yield from fields.of(a.params, b.params, "params")
    old, new = a.source, b.source
    if type(old) is not type(new):
        yield FieldChange("source", type(old).__name__, type(new).__name__)
    else:
        yield from (f for f in fields.of(old, new) if f.name not in ("code", "entry"))
