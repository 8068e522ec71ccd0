"""``wrapper-ir run --interpret``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import wrapper_ir as wir
from wrapper_ir.runtime import debug_session

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Invoke


def test_interpret_shows_what_the_emitted_program_shows(room: Path, invoke: Invoke) -> None:
    words = ("run", "small.wir", "--random", "5", "--json")
    result = invoke(*words, "--interpret")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout) == json.loads(invoke(*words).stdout)


def test_interpret_shows_values(room: Path, invoke: Invoke, tmp_path: Path) -> None:
    words = ("run", "small.wir", "--random", "0", "--debug", "print")
    logs = []
    for extra in ((), ("--interpret",)):
        log = tmp_path / f"log{len(extra)}"
        with debug_session(output=log):
            assert invoke(*words, *extra).exit_code == 0
        logs.append(log.read_text())
    assert logs[0]
    assert logs[0] == logs[1]


def test_a_value_that_is_not_finite_is_a_difference_not_a_mistake(
    room: Path, invoke: Invoke
) -> None:
    b = wir.Builder("log")
    x = b.input("x", "f32", (2,))
    zero = b.extern("aten::mul.Scalar(Tensor self, Scalar other) -> Tensor", x, 0, result=x.layout)
    b.returns(b.extern("aten::log(Tensor self) -> Tensor", zero, result=x.layout))
    b.build().save(room / "log.wir")
    result = invoke("run", "log.wir", "--random", "0", "--debug", "check")
    assert result.exit_code == 1
    assert "WIR1502" in result.stderr
