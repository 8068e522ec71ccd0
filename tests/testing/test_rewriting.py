"""Texts written into calls: they stay texts, and the rest of the module stays as it was."""

from __future__ import annotations

import ast
import stat
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wrapper_ir.testing.rewriting import Edit, InlineSnapshotError, Site, rewritten, write_edits
from wrapper_ir.testing.texts import normal

if TYPE_CHECKING:
    from pathlib import Path


def edits(source: str, *changes: tuple[str, str]) -> tuple[Edit, ...]:
    """New texts for the calls that begin with some words, as tests would find them."""
    found = []
    for words, after in changes:
        (call,) = (
            each
            for each in ast.walk(ast.parse(source))
            if isinstance(each, ast.Call)
            and (ast.get_source_segment(source, each) or "").startswith(words)
        )
        given = call.args[1] if len(call.args) > 1 else None
        before = given.value if isinstance(given, ast.Constant) else None
        assert before is None or isinstance(before, str)
        place = (call.lineno, call.col_offset, call.end_lineno or 0, call.end_col_offset or 0)
        found.append(Edit(Site("test_it.py", *place), before, after))
    return tuple(found)


def write(source: str, *changes: tuple[str, str]) -> str:
    return rewritten(source.encode(), edits(source, *changes)).decode()


def test_several_texts_in_a_file() -> None:
    source = """\
def test(check):
    check(one); check(two, "old", target="fx")  # a comment
    if True:
        check(three(é), 'o' 'ld')
"""
    assert write(
        source, ("check(one", "a\n  b"), ("check(two", "c"), ("check(three", "d\n\ne")
    ) == (
        '''\
def test(check):
    check(one, """
        a
          b
        """); check(two, """
        c
        """, target="fx")  # a comment
    if True:
        check(three(é), """
            d

            e
            """)
'''
    )


@given(st.text(), st.sampled_from(["", "    ", "\t"]), st.sampled_from(["\n", "\r\n"]))
def test_any_text_is_only_text(text: str, indent: str, end: str) -> None:
    source = f"if 1:\n{indent or ' '}wir_inline(é, 'x') ; after(1)\n".replace("\n", end)
    new = write(source, ("wir_inline", normal(text)))
    calls = [each for each in ast.walk(ast.parse(new)) if isinstance(each, ast.Call)]
    assert len(calls) == 2
    (value,) = (each.args[1] for each in calls if len(each.args) == 2)
    assert isinstance(value, ast.Constant)
    assert normal(str(value.value)) == normal(text)
    assert end == "\n" or "\n" not in new.replace("\r\n", "")


@pytest.mark.parametrize(
    "text",
    [
        '"""); import os; os.abort() #',
        '\\"""',
        "\\",
        '"',
        '""""',
        "\x00\x1b\u202e\ud800",
        "\\N{DASH}",
    ],
)
def test_text_that_would_be_code(text: str) -> None:
    new = write("f(x)\n", ("f", text))
    (statement,) = ast.parse(new).body
    assert isinstance(statement, ast.Expr)
    assert isinstance(statement.value, ast.Call)
    assert normal(ast.literal_eval(statement.value.args[1])) == text
    assert not {"\x00", "\x1b", "\u202e"} & {*new}


def test_what_comes_before_a_module_stays() -> None:
    source = "# -*- coding: utf-8 -*-\nf(x)\n"
    new = rewritten(b"\xef\xbb\xbf" + source.encode(), edits(source, ("f", "a")))
    assert new == b'\xef\xbb\xbf# -*- coding: utf-8 -*-\nf(x, """\n    a\n    """)\n'


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("f(x, TEXT)", "its text is not written in the call, but computed"),
        ("f(x, f'{x}')", "its text is not written in the call, but computed"),
        ("f(x, 'a' + 'b')", "its text is not written in the call, but computed"),
        ("f(*x)", "not two plain arguments"),
        ("f(program=x)", "not two plain arguments"),
        ("f(x, None, None)", "not two plain arguments"),
        ("f((x))", "leaves no place for a text"),
        ("f(y for y in x)", "leaves no place for a text"),
    ],
)
def test_calls_that_no_text_can_be_written_into(source: str, reason: str) -> None:
    with pytest.raises(InlineSnapshotError, match=reason) as caught:
        write(source, ("f(", "a"))
    assert "test_it.py:1" in str(caught.value)
    assert "hint" in str(caught.value)


def test_a_file_that_has_changed_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "test_it.py"
    source = "f(x, 'a')\nf2(y, 'b')\n"
    changes = edits(source, ("f(x", "new"), ("f2(y", "new"))
    for other in (
        "\n" + source,
        source.replace("'b'", "'c'"),
        source.replace("y, 'b'", "y, None"),
        source + ")",
        "# coding: latin-1\n",
    ):
        file.write_text(other)
        with pytest.raises(InlineSnapshotError):
            write_edits(str(file), changes)
        assert file.read_text() == other
    file.write_text(source)
    file.chmod(0o755)
    link = tmp_path / "link.py"
    link.symlink_to(file)
    write_edits(str(link), changes)
    assert file.read_text().count("new") == 2
    assert link.is_symlink()
    assert stat.S_IMODE(file.stat().st_mode) & 0o111
    assert sorted(tmp_path.iterdir()) == [link, file]


def test_a_latin_file_and_lost_places_are_said() -> None:
    source = "# coding: latin-1\nf(x)\n"
    with pytest.raises(InlineSnapshotError, match="in iso-8859-1, not in UTF-8"):
        write(source, ("f", "a"))
    lost = Edit(Site("test_it.py", 1, -1, 1, -1), None, "a")
    with pytest.raises(InlineSnapshotError, match="no_debug_ranges"):
        rewritten(b"f(x)\n", (lost,))
