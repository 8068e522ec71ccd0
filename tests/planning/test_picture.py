"""The picture of a plan: a rectangle a buffer, names to hover, text that cannot become markup."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING

import wrapper_ir as wir
from tests.planning.test_pool import CHAIN, symbolic
from tests.planning.test_reuse import program
from wrapper_ir.planning import picture, plan

if TYPE_CHECKING:
    from pathlib import Path

SVG = "{http://www.w3.org/2000/svg}"


def boxes(text: str) -> dict[str, tuple[float, float, float, float]]:
    found = {}
    for rect in ET.fromstring(text).iter(f"{SVG}rect"):
        title = rect.find(f"{SVG}title")
        if title is not None:
            assert title.text is not None
            name = title.text.split("\n")[0].removeprefix("%")
            x, y, width, height = (float(rect.attrib[k]) for k in ("x", "y", "width", "height"))
            found[name] = (x, y, width, height)
    return found


def test_each_buffer_has_a_rectangle_where_it_is_put() -> None:
    drawn = boxes(picture(plan(program(CHAIN, "%d"), "pool").program))
    assert sorted(drawn) == ["a", "b", "c", "d"]
    for one in "ab", "bc":
        (_, y0, _, h0), (_, y1, _, h1) = drawn[one[0]], drawn[one[1]]
        assert y0 + h0 <= y1 + 0.01 or y1 + h1 <= y0 + 0.01
    # Twice the bytes are twice as high (there is a panel of its own for what is in no pool).
    assert abs(drawn["b"][3] / drawn["a"][3] - 2) < 0.01
    assert drawn["a"][0] < drawn["b"][0] < drawn["c"][0]


def test_plans_without_arenas_are_drawn_too_and_large_ones() -> None:
    drawn = boxes(picture(plan(program(CHAIN, "%d")).program))
    assert sorted(drawn) == ["a", "b", "c", "d"]
    large = boxes(picture(wir.plan_memory(symbolic(500, 1), "none")))
    assert len(large) == 500
    assert ET.fromstring(picture(wir.Program())) is not None


def test_names_from_outside_are_text() -> None:
    strange = program(CHAIN, "%d").replace(name="<script>&amp;")
    text = picture(wir.plan_memory(strange.replace(name="p")).replace(name="</svg><b>"))
    assert "<b>" not in text
    ET.fromstring(text)


def test_the_command_writes_it(tmp_path: Path) -> None:
    from click.testing import CliRunner

    from wrapper_ir.cli import main

    source = tmp_path / "p.wir"
    source.write_text(str(program(CHAIN, "%d")), encoding="utf-8")
    words = ["plan", str(source), "--strategy", "pool", "--buffers", "--verify-each"]
    result = CliRunner().invoke(main, [*words, "--svg", str(tmp_path / "p.svg")])
    assert result.exit_code == 0
    assert "%pool0" in result.stdout
    assert "placed by" in result.stdout
    assert boxes((tmp_path / "p.svg").read_text(encoding="utf-8"))
