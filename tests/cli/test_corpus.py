"""``wrapper-ir corpus``."""

from __future__ import annotations

import json

from click.testing import CliRunner

import wrapper_ir as wir
from wrapper_ir.cli import main


def run(*args: str) -> str:
    result = CliRunner().invoke(main, ["corpus", *args], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_the_list_says_what_each_is_about() -> None:
    assert "relu_twice" in run("--list")
    about = json.loads(run("--list", "--json"))
    assert all(about.values())


def test_a_program() -> None:
    assert wir.parse(run("while")).name == "while"


def test_no_such_program() -> None:
    result = CliRunner().invoke(main, ["corpus", "nothing"])
    assert result.exit_code == 2
    assert "no program 'nothing'" in result.output


def test_the_table() -> None:
    counted = json.loads(run("--target", "python", "--json"))
    lines = {row["name"]: row for row in counted["lines"]}
    assert lines["while"]["rendered"] == {"python": len(lines["while"]["programs"])}
    assert {"float32", "int64", "bool"} <= {row["name"] for row in counted["dtypes"]}
    cells = {row["name"]: row for row in counted["cells"]["call"]}
    assert "half_types" in cells["bfloat16"]["programs"]
    assert "float8_e5m2" not in cells
    shown = run("--target", "python")
    assert "f8e5m2 " in shown
    assert "while" in shown
    assert "element type" in shown
