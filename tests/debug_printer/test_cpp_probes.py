"""Probes in generated C++: what they add to the text, and that they say what Python says."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
import torch
from torch import nn

import wrapper_ir as wir
from tests import warm
from tests.debug_printer.test_running import CRASHING, SCALE, W, X, scale
from tests.emitters.corpus import CASES, program
from wrapper_ir.debug_printer import DebugPrinter, bisect, calls_of, insert_probes
from wrapper_ir.emitters.base import EmitError
from wrapper_ir.runtime import NonFiniteError, debug_session

if TYPE_CHECKING:
    from pathlib import Path

#: The block of a probe, and what numbers the lines of the program, of which probes have some.
BLOCK = re.compile(r"^( *)if \(call\.probes != nullptr\) \{\n(?:\1 .*\n)*\1\}\n", re.MULTILINE)
NUMBER = re.compile(r"call\.line = \d+;")


def statements(made: wir.Program) -> str:
    """The text without tables and what members the state has, which come in another order."""
    source = wir.emit(made, "cpp").source
    body = source[
        source.index("// Memory and views kept between calls.") : source.index("\nconstexpr wir::")
    ]
    state = re.compile(
        r"struct State \{.*?^\};|^void\* create_state.*?^\}", re.MULTILINE | re.DOTALL
    )
    return NUMBER.sub("call.line = N;", state.sub("", BLOCK.sub("", body)))


@pytest.mark.parametrize("name", CASES)
def test_a_probe_adds_a_branch_and_changes_nothing_around_it(name: str) -> None:
    made = program(name)
    if not any(calls_of(made)):
        return
    probed = insert_probes(made, DebugPrinter("print", when="both"))
    try:
        plain = statements(made)
    except EmitError:
        return  # not for the CPU
    assert "call.probes" in wir.emit(probed, "cpp").source
    assert statements(probed) == plain


def test_operands_that_are_no_tensors_are_made_in_the_branch() -> None:
    probed = insert_probes(program("pools"), DebugPrinter("print"))
    source = wir.emit(probed, "cpp").source
    inside = "".join(block.group() for block in BLOCK.finditer(source))
    assert "_shown = wir::view" in inside
    assert "_shown" not in BLOCK.sub("", source)


@pytest.mark.parametrize("name", ["pools", "while"])
def test_the_log_is_that_of_python(name: str, tmp_path: Path) -> None:
    probed = insert_probes(program(name), DebugPrinter("print", when="both"))
    logs = []
    for target in ("python", "cpp"):
        torch.manual_seed(3)
        with debug_session(output=tmp_path / target):
            wir.compile(probed, target)(*CASES[name].make())
        logs.append((tmp_path / target).read_text())
    assert logs[0] == logs[1] != ""


def test_text_from_outside_is_data(tmp_path: Path) -> None:
    label = 'a "quoted\\ \u00e9 ??/ \n line'
    made = wir.parse(SCALE).replace(data={"w": W})
    probe = wir.lines.Probe(label, wir.lines.When.AFTER, wir.lines.ProbeLevel.PRINT, ("a",))
    index = next(call.path[-1].position for call in calls_of(made)) + 1
    body = (*made.body[:index], probe, *made.body[index:])
    for target in ("python", "cpp"):
        with debug_session(output=tmp_path / target):
            wir.compile(made.replace(body=body), target)(X)
    assert (tmp_path / "cpp").read_text() == (tmp_path / "python").read_text()
    assert (tmp_path / "cpp").read_text().startswith(label)


def test_errors_of_probes_are_those_of_python() -> None:
    bad = torch.tensor([1.0, -2.0, 0.0, 4.0])
    errors = []
    for target in ("python", "cpp"):
        with pytest.raises(NonFiniteError) as caught:
            wir.compile(scale(), target, debug="check")(bad)
        errors.append(caught.value)
    assert str(errors[0]) == str(errors[1])
    assert errors[0].fields == errors[1].fields
    assert any("0001 aten::log.out" in note for note in errors[1].__notes__)


def test_bisect_compares_python_with_cpp() -> None:
    assert str(bisect(scale(), [X], a="python", b="cpp")) == "no difference in 3 tensors"
    planted = wir.parse(SCALE.replace("a[i] * b[i]", "a[i] * b[i > 2 ? 2 : i]"))
    found = bisect(scale(), [X], a="python", b="cpp", other=planted.replace(data={"w": W}))
    assert found.call is not None
    assert found.call.label == "0000 scale"


def test_torch_compile_with_the_emitter_cpp(tmp_path: Path) -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(4, 4), nn.ReLU()), torch.randn(2, 4)
    logs = []
    for emitter in ("python", "cpp"):
        torch._dynamo.reset()
        options = {"emitter": emitter, "debug": "print"}
        with debug_session(output=tmp_path / emitter), torch.no_grad():
            torch.compile(model, backend="wrapper_ir", options=options)(x)
        logs.append((tmp_path / emitter).read_text())
    assert logs[0] == logs[1] != ""


CRASH = """
import torch, os, sys
import wrapper_ir as wir
lib = torch.library.Library("crashing", "DEF")
lib.define("now(Tensor x) -> Tensor")
lib.impl("now", lambda x: os.abort(), "CPU")
wir.compile(wir.parse(sys.argv[1]), "cpp", debug="names")(torch.ones(4))
"""


def test_the_last_line_before_a_crash_names_the_call() -> None:
    done = warm.run(CRASH, CRASHING)
    assert done.returncode != 0
    assert done.stderr.splitlines()[-1] == "0001 crashing::now before"


def test_off_gives_the_same_bytes() -> None:
    plain = wir.plan_memory(scale())
    assert wir.emit(insert_probes(plain, DebugPrinter("off")), "cpp").source == (
        wir.emit(plain, "cpp").source
    )
    assert "probe" not in wir.emit(plain, "cpp").source.lower()
