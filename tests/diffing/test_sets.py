"""Sets of programs: what changed in which, as text, JSON and a comment."""

from __future__ import annotations

import re
from html import unescape

import wrapper_ir as wir
from wrapper_ir.diffing import Kind, SetDiff, compare

TEXT = """
wir 2
program @p inference planned

input %x : f32[4] @cpu

kernel @k(in_ptr0: in f32, out_ptr0: out f32) cpp
  | extern "C" void kernel(const float* in_ptr0, float* out_ptr0) { one(); }
  |

  assert_layout %x, "input"
  %a = allocate : f32[4] @cpu
  call @k(%x, out %a)
return %a
"""

ONE = wir.parse(TEXT)
LONGER = wir.parse(TEXT.replace("f32[4]", "f32[1024]"))
UNCHECKED = wir.parse(TEXT.replace('  assert_layout %x, "input"\n', ""))
WORDED = wir.parse(TEXT.replace("one()", "two()"))


def test_a_program_is_the_same_or_what_changed_is_counted() -> None:
    assert compare("x", ONE, wir.parse(TEXT.replace("%a", "%b"))) is None
    longer = compare("x", ONE, LONGER)
    assert longer is not None
    assert (longer.kind, longer.figure("allocated_bytes")) == (Kind.CHANGED, "16 -> 4,096")
    assert longer.figure("kernels") == "1"
    assert longer.summary == str(wir.diff(ONE, LONGER)).splitlines()[0]
    unchecked = compare("x", ONE, UNCHECKED)
    assert unchecked is not None
    assert unchecked.figure("checks") == "1 -> 0"
    added, removed = compare("x", None, ONE), compare("x", ONE, None)
    assert added is not None
    assert removed is not None
    assert (added.kind, added.before, added.figure("lines")) == (Kind.ADDED, None, "3")
    assert (removed.kind, removed.after) == (Kind.REMOVED, None)


def test_structures_are_compared_if_asked_but_figures_are_the_programs() -> None:
    assert compare("x", ONE, WORDED) is not None
    assert compare("x", ONE, WORDED, structure=True) is None
    assert compare("x", ONE, UNCHECKED, structure=True) is None
    longer = compare("x", ONE, LONGER, structure=True)
    assert longer is not None
    assert longer.figure("checks") == "1"


def test_a_report_has_the_figures_that_changed_and_reads_back() -> None:
    pairs = {"added": (None, ONE), "longer": (ONE, LONGER), "unchecked": (ONE, UNCHECKED)}
    found = [compare(name, *pair) for name, pair in pairs.items()]
    report = SetDiff(5, tuple(each for each in found if each is not None))
    assert report
    assert SetDiff.from_json(report.to_json()) == report
    assert report.headline == "5 programs: 1 added, 2 changed, 2 the same"
    assert "\nlonger: changed\n" in str(report)
    assert re.search(r"\n  bytes allocated +16 -> 4,096\n", str(report))
    head, rule, *rows = report.to_markdown().splitlines()[2:]
    titles = "program | checks | lines | bytes allocated | bytes at the peak | change | open"
    assert sorted(head.strip("| ").split(" | ")) == sorted(titles.split(" | "))
    assert {row.count(" | ") for row in (head, rule, *rows)} == {6}
    assert "16 → 4,096" in rows[1]
    same = SetDiff(1)
    assert not same
    assert same.to_markdown() == "**1 program: 1 the same**\n\n"


def test_names_are_no_markdown() -> None:
    name = "a|b`<script>@all [x](y) *c*\n| d"
    found = compare(name, ONE, LONGER)
    assert found is not None
    report = SetDiff(1, (found,)).to_markdown()
    (row,) = report.splitlines()[4:]
    assert row.count("|") == report.splitlines()[2].count("|")
    assert not re.search(r"[`<@*\[]", row.split(" | ")[0])
    assert unescape(row.split(" | ")[0]) == "| " + name.replace("\n", " ")
