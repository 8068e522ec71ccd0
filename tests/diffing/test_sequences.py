"""The longest common subsequence, against the textbook's."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from wrapper_ir.diffing.sequences import Matcher, common, text_changes

SHORT = st.lists(st.integers(0, 3), max_size=12)


def length(a: list[int], b: list[int]) -> int:
    """Of the longest common subsequence, by the table that everybody knows."""
    table = [0] * (len(b) + 1)
    for x in a:
        before = 0
        for place, y in enumerate(b, start=1):
            found = before + 1 if x == y else max(table[place], table[place - 1])
            before, table[place] = table[place], found
    return table[-1]


@given(SHORT, SHORT)
def test_it_is_as_long_as_can_be(a: list[int], b: list[int]) -> None:
    pairs = common(a, b)
    assert all(a[i] == b[j] for i, j in pairs)
    assert pairs == sorted(set(pairs))
    assert all(p[1] < q[1] for p, q in itertools.pairwise(pairs))
    assert len(pairs) == length(a, b)


def test_what_stands_everywhere_is_matched_with_what_is_near() -> None:
    a, b = [0] * 5000 + [1], [2] + [0] * 5000
    assert len(common(a, b)) == 5000


@given(SHORT, SHORT)
def test_every_element_is_in_one_place_of_a_match(a: list[int], b: list[int]) -> None:
    matcher = Matcher(len(a), len(b))
    matcher.in_order(a, b)
    matcher.anywhere(a, b)
    found = matcher.done()
    assert sorted([i for i, _ in found.all] + [*found.removed]) == [*range(len(a))]
    assert sorted([j for _, j in found.all] + [*found.added]) == [*range(len(b))]
    assert all(a[i] == b[j] for i, j in found.all)
    assert not {a[i] for i in found.removed} & {b[j] for j in found.added}


@given(st.lists(st.sampled_from("abc"), max_size=9), st.lists(st.sampled_from("abc"), max_size=9))
def test_a_text_change_says_how_to_get_there(a: list[str], b: list[str]) -> None:
    text = list(a)
    for change in text_changes(a, b):
        start = change.start - 1
        assert text[start : start + len(change.removed)] == [*change.removed]
        text[start : start + len(change.removed)] = change.added
    assert text == b
