"""Changes of snapshots, grouped by cause."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import wrapper_ir as wir
from tests.testing.samples import TEXT
from wrapper_ir.testing.grouping import grouped
from wrapper_ir.testing.pending import Pending

if TYPE_CHECKING:
    from collections.abc import Iterable


def make(size: int, op: str, more: str = "") -> str:
    text = TEXT.replace("{size}", str(size)).replace("{op}", op)
    return str(wir.parse(text.replace("{calls}", "  call @k(%x, out %a)" + more)).canonical())


def sizes_of(pending: Iterable[Pending]) -> list[tuple[int, bool]]:
    return [(len(group.changes), group.equal) for group in grouped(pending)]


def test_changes_of_one_cause_are_one_group() -> None:
    def change(before: str | None, after: str, target: str = "wir") -> Pending:
        return Pending(Path("x"), target, before, after)

    changed = [change(make(size, "relu"), make(size, "tanh")) for size in (1, 2, 30)]
    assert sizes_of(changed) == [(3, True)]  # names with numbers, and numbers that stay
    more = "\n  aten::neg.out(%x, out=out %a)"
    grown = [change(make(size, "relu"), make(size, "relu", more)) for size in (1, 2)]
    twice = change(make(4, "relu"), make(4, "relu", more * 2))
    assert sizes_of([*grown, twice]) == [(3, True)]  # how often does not count
    sized = [change(make(size, "relu"), make(size + 1, "relu")) for size in (1, 2)]
    assert sizes_of(sized) == [(2, False)]
    constant = change(make(1, "relu"), make(1, "relu").replace("0.5", "0.75"))
    other = change(make(1, "relu"), make(1, "relu").replace("0.5", "0.25"))
    assert sizes_of([constant, other]) == [(2, False)]
    typed = change(make(1, "relu"), make(1, "relu").replace("f32", "f64"))
    half = change(make(1, "relu"), make(1, "relu").replace("f32", "f16"))
    assert sizes_of([typed, half]) == [(1, True), (1, True)]  # a type is no number
    texts = [change(f"a\nx = {n}", f"b\nx = {n}", "py") for n in (1, 2)]
    assert sizes_of([*texts, change("a\nx = 1", "c\nx = 1", "py")]) == [(2, True), (1, True)]
    new = [change(None, make(1, "relu")), change(None, make(1, "tanh"))]
    assert sizes_of(new) == [(2, True)]
    everything = [*changed, *grown, *sized, *texts, *new]
    assert sorted(len(group.changes) for group in grouped(everything)) == [2, 2, 2, 2, 3]
