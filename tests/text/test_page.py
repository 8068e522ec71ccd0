"""The page about the text form says what is so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import wrapper_ir as wir
from wrapper_ir.lines import DType
from wrapper_ir.text.expressions import CALLS
from wrapper_ir.text.words import RESERVED

PAGE = (Path(__file__).parents[2] / "docs" / "text-format.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_the_program_on_the_page_is_what_is_printed() -> None:
    program = wir.parse(BLOCKS[0])
    assert str(program) == BLOCKS[0]
    assert wir.diagnose(program) == ()


@pytest.mark.parametrize("block", [1, 3], ids=["an object", "folding"])
def test_the_program_with_this_is_what_is_printed(block: int) -> None:
    program = wir.parse(BLOCKS[block])
    assert str(program) == BLOCKS[block]
    assert wir.diagnose(program) == ()


def test_the_regions_on_the_page_are_what_is_printed() -> None:
    symbols = "".join(f"symbol {name} : int\n" for name in ("s0", "u0", "u1", "u2"))
    inputs = "input s0\ninput %x : f32[s0] @cpu\ninput %y : f32[s0] @cpu\n"
    head = f"wir 2\nprogram @p inference logical\n\n{symbols}{inputs}\n"
    text = f"{head}{BLOCKS[2]}return\n"
    program = wir.parse(text)
    assert str(program) == text
    assert wir.diagnose(program) == ()


def test_the_error_on_the_page_is_what_is_raised() -> None:
    wrong = BLOCKS[5].splitlines()[1].strip()
    text = f"wir 2\nprogram @p inference logical\n\n{wrong}\nreturn\n"
    try:
        wir.parse(text, source_name="m.wir")
    except wir.WrapperIRError as error:
        found = str(error)
    assert found == BLOCKS[5].rstrip("\n").replace("4:29", "4:28")


def test_the_page_names_every_function_and_word() -> None:
    for name in (*CALLS, *(RESERVED - {dtype.short for dtype in DType})):
        assert re.search(rf"\b{name}\b", PAGE), name
