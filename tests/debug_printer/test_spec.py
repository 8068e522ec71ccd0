"""The options of the debug printer: what is understood, and what is refused, at once."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import wrapper_ir as wir
from wrapper_ir.debug_printer import DebugPrinter, parse_level
from wrapper_ir.errors import OptionValueError
from wrapper_ir.lines import ProbeLevel


@pytest.mark.parametrize(
    ("given", "level"),
    [
        *((spelling, None) for spelling in ("off", "OFF", 0, "0")),
        *((spelling, ProbeLevel.SAVE) for spelling in ("save", "SAVE_ONLY", 1, "1")),
        *((spelling, ProbeLevel.PRINT) for spelling in ("print", "PRINT_ONLY", 2, " 2 ")),
        *((s, ProbeLevel.NAMES) for s in ("names", "print_kernel_names_only", 3, "3")),
        *((level.value, level) for level in ProbeLevel),
        *((level, level) for level in ProbeLevel),
    ],
)
def test_levels(given: Any, level: ProbeLevel | None) -> None:
    assert parse_level(given) is level
    assert DebugPrinter(given).probe_level is level


@pytest.mark.parametrize("given", [True, False, 4, -1, "4", "on", "", None, 2.0, "prints"])
def test_bad_levels_are_refused_with_the_good_ones(given: Any) -> None:
    with pytest.raises(OptionValueError, match=r"'off', 'save', 'print', 'names'.* 0 to 3"):
        DebugPrinter(given)


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("kernels", "", "glob"),
        ("kernels", "re:(", "regular expression"),
        ("ops", 7, "glob"),
        ("calls", "a:b", "range"),
        ("calls", 3, "range"),
        ("when", "during", "'before', 'after' or 'both'"),
        ("operands", ("inputs", "weights"), "'inputs', 'outputs', 'scalars'"),
        ("operands", "inputs", "tuple"),
    ],
)
def test_bad_options_are_refused(option: str, value: Any, words: str) -> None:
    with pytest.raises(OptionValueError, match=words):
        DebugPrinter(**{option: value})


@pytest.mark.parametrize(
    ("calls", "chosen"),
    [(":", range(6)), ("2", [2]), ("2:4", [2, 3]), (":2", [0, 1]), ("4:", [4, 5]), ("9", [])],
)
def test_ranges_of_calls(calls: str, chosen: Any) -> None:
    printer = DebugPrinter(calls=calls)
    assert [number for number in range(6) if printer.has_call(number)] == list(chosen)


def test_torch_compile_refuses_bad_options() -> None:
    for options in ({"debug": "loud"}, {"debug": True}, {"debug_filter": ""}):
        compiled = torch.compile(lambda x: x + 1, backend="wrapper_ir", options=options)
        with pytest.raises(Exception, match="WIR0003"):
            compiled(torch.ones(2))
        torch._dynamo.reset()


def test_the_environment_is_checked_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WRAPPER_IR_DEBUG", "loud")
    program = wir.parse("wir 2\nprogram @p inference planned\ninput %x : f32[2] @cpu\nreturn %x\n")
    with pytest.raises(OptionValueError, match="WRAPPER_IR_DEBUG"):
        wir.compile(program)
    monkeypatch.delenv("WRAPPER_IR_DEBUG")
    monkeypatch.setenv("WRAPPER_IR_DEBUG_POISON", "arsenic")
    with pytest.raises(OptionValueError, match="WRAPPER_IR_DEBUG_POISON"):
        wir.compile(program)
