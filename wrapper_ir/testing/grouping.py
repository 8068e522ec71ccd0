"""Groups of changes with one cause: equal differences, whatever things are called and where.

Convention: two changes are *alike* if they have the same parts, names and numbers aside; the number
of times that a part occurs does not count. Changes of a group that also have the same numbers are
*equal*. Whoever decides on a group is told which of the two it is.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from wrapper_ir.diffing.model import (
    FieldChange,
    ItemChange,
    KernelChange,
    LineChange,
    ProgramDiff,
    SourceDiff,
    TextChange,
)
from wrapper_ir.testing.comparisons import difference
from wrapper_ir.testing.pending import Pending
from wrapper_ir.text.words import DTYPES

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator

Parts: TypeAlias = frozenset["Hashable"]

#: Names and numbers in texts of any language.
_WORD: Final = re.compile(r"[%@]?[A-Za-z_]\w*|\d[\w.]*")


@dataclass(frozen=True)
class Group:
    """Changes that are alike.

    Attributes:
        changes: The changes, at least one.
        equal: True if they are equal.
    """

    changes: tuple[Pending, ...]
    equal: bool

    @property
    def title(self) -> str:
        """What the changes are, in a line."""
        new = self.changes[0].before is None
        if len(self.changes) == 1:
            return "1 new snapshot" if new else "1 snapshot changed"
        if new:
            return f"{len(self.changes)} new snapshots"
        how = "in the same way" if self.equal else "alike, with other numbers"
        return f"{len(self.changes)} snapshots changed {how}"


def grouped(pending: Iterable[Pending]) -> list[Group]:
    """Return groups of changes that are alike, the largest first."""
    found: dict[Parts, list[tuple[Parts, Pending]]] = defaultdict(list)
    for each in pending:
        exact = frozenset(_parts(each, _without_names))
        found[frozenset(_parts(each, _without_numbers))].append((exact, each))
    groups = [
        Group(tuple(each for _, each in rows), len({exact for exact, _ in rows}) == 1)
        for rows in found.values()
    ]
    return sorted(groups, key=lambda group: -len(group.changes))


def _without_names(text: str) -> str:
    return _WORD.sub(lambda match: _renamed(match[0], match[0]), text)


def _without_numbers(text: str) -> str:
    return _WORD.sub(lambda match: _renamed(match[0], "#"), text)


def _renamed(word: str, number: str) -> str:
    """Return a word without the digits of a name; ``number`` is what stands for a number."""
    if word[0].isdigit():
        return number
    return word if word in DTYPES else re.sub(r"\d+", "#", word)


def _parts(pending: Pending, plain: Callable[[str], str]) -> Iterator[Hashable]:
    """Yield what a change consists of, with texts made ``plain``."""
    yield pending.target
    if pending.before is None:
        yield "new"
        return
    found = difference(pending.before, pending.after, pending.target)
    if isinstance(found, ProgramDiff):
        yield from _program_parts(found, plain)
    elif isinstance(found, SourceDiff):
        for section in found.sections:
            yield section.kind, *_texts(section.text, plain)


def _program_parts(found: ProgramDiff, plain: Callable[[str], str]) -> Iterator[Hashable]:
    for kernel in found.kernels:
        yield _kernel(kernel, plain)
    for item in found.items:
        yield _item(item, plain)
    for top in found.lines:
        for line in top.inside():
            yield _line(line, plain)
            yield from (_item(item, plain) for region in line.regions for item in region.items)
    if found.folding is not None:
        yield "folding", frozenset(_program_parts(found.folding, plain))


def _kernel(change: KernelChange, plain: Callable[[str], str]) -> Hashable:
    return "kernel", change.kind, *_fields(change.fields, plain), *_texts(change.code, plain)


def _item(change: ItemChange, plain: Callable[[str], str]) -> Hashable:
    texts = () if change.fields else (plain(change.before), plain(change.after))
    return change.what, change.kind, *texts, *_fields(change.fields, plain)


def _line(change: LineChange, plain: Callable[[str], str]) -> Hashable:
    texts = (plain(change.text_before), plain(change.text_after))
    return "line", change.kind, *texts, *_fields(change.fields, plain)


def _fields(fields: Iterable[FieldChange], plain: Callable[[str], str]) -> Iterator[Hashable]:
    yield from ((each.name, plain(each.before), plain(each.after)) for each in fields)


def _texts(changes: Iterable[TextChange], plain: Callable[[str], str]) -> Iterator[Hashable]:
    for each in changes:
        yield tuple(map(plain, each.removed)), tuple(map(plain, each.added))
