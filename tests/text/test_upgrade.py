"""Texts of older versions: they read as the same programs, and can be rewritten."""

from __future__ import annotations

from pathlib import Path

import pytest

import wrapper_ir as wir
from wrapper_ir.lines import SCHEMA_VERSION, While, walk
from wrapper_ir.text import TextError, VersionTextError, parse, upgrade
from wrapper_ir.text.reader import UPGRADES

KEPT = Path(__file__).parent / "versions"
VERSION_1 = (KEPT / "version_1.wir").read_text(encoding="utf-8")


def test_every_older_version_has_its_step_and_a_kept_file() -> None:
    assert list(UPGRADES) == list(range(1, SCHEMA_VERSION))
    assert {path.stem for path in KEPT.iterdir()} == {f"version_{number}" for number in UPGRADES}


def test_an_old_text_is_read_and_printed_in_the_new_form() -> None:
    program = parse(VERSION_1)
    wir.verify(program)
    (loop,) = [line for _, line in walk(program) if isinstance(line, While)]
    assert loop.captured == ()
    text = str(program)
    assert text.startswith(f"wir {SCHEMA_VERSION}\n")
    assert "while (0, %x) :" in text
    assert parse(text) == program


def test_upgrading_keeps_what_printing_would_drop_and_touches_no_text_of_users() -> None:
    new = upgrade(VERSION_1)
    assert parse(new) == parse(VERSION_1)
    before, after = VERSION_1.splitlines(), new.splitlines()
    changed = [(a, b) for a, b in zip(before, after, strict=True) if a != b]
    assert changed == [
        ("wir 1", f"wir {SCHEMA_VERSION}"),
        (
            '  (u4, %y) = while (0, %x)  with ( ) : (symbol, f32[8] @cpu) ; "with ()"',
            '  (u4, %y) = while (0, %x) : (symbol, f32[8] @cpu) ; "with ()"',
        ),
    ]
    assert upgrade(new) == new


def test_a_fault_in_an_old_text_is_reported_where_it_stands() -> None:
    number = VERSION_1.splitlines().index("return u4, %y") + 1
    with pytest.raises(TextError) as caught:
        parse(VERSION_1.replace("return u4, %y", "return u4, %y %y"))
    assert (caught.value.line, caught.value.column) == (number, 15)


def test_the_old_form_is_refused_in_a_new_text() -> None:
    with pytest.raises(TextError, match=r"leave out 'with \(\)'"):
        parse(VERSION_1.replace("wir 1", f"wir {SCHEMA_VERSION}"))


@pytest.mark.parametrize("head", [f"wir {SCHEMA_VERSION + 1}", "wir 0", "wir", "hello", ""])
def test_what_is_no_older_text_is_left_to_the_parser(head: str) -> None:
    text = VERSION_1.replace("wir 1", head)
    assert upgrade(text) == text
    with pytest.raises(TextError):
        parse(text)


def test_a_newer_text_is_refused_with_both_versions() -> None:
    newer = SCHEMA_VERSION + 1
    with pytest.raises(VersionTextError) as caught:
        parse(VERSION_1.replace("wir 1", f"wir {newer}"))
    assert f"has version {newer}, but this wrapper_ir reads up to version {SCHEMA_VERSION}" in str(
        caught.value
    )
