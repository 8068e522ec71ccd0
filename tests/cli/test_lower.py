"""``lower``, and ``plan`` with the passes that a device or a target names."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import wrapper_ir as wir
from tests.devices.loops import LOOPS, cpu_with
from tests.devices.lowerings import lower
from wrapper_ir import devices

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Invoke

RELU = """\
wir 2
program @small inference logical

input %x : f32[4] @cpu

extern aten::relu(Tensor self) -> Tensor

  %y = aten::relu(%x) : f32[4] @cpu
return %y
"""

KIND = {
    "languages": (*devices.CPU.languages, LOOPS),
    "lowering": ("tests.devices.lowerings:lower",),
}


def test_lower_shows_what_becomes_of_a_program(room: Path, invoke: Invoke) -> None:
    (room / "relu.wir").write_text(RELU)
    assert invoke("lower", "relu.wir").stdout == RELU + "\n"
    with cpu_with(**KIND):
        done = invoke("lower", "relu.wir")
        assert wir.parse(done.stdout) == lower(wir.parse(RELU))
        assert invoke("lower", "relu.wir", "-o", "lowered.wir").exit_code == 0
        assert wir.load(room / "lowered.wir") == lower(wir.parse(RELU))
        assert "loops_relu" in invoke("diff", "relu.wir", "lowered.wir").stdout
        planned = wir.parse(invoke("lower", "relu.wir", "--target", "python", "--planned").stdout)
        assert planned == wir.prepare(wir.parse(RELU))


def test_plan_plans_what_was_lowered(room: Path, invoke: Invoke) -> None:
    (room / "relu.wir").write_text(RELU)
    last = "tests.devices.lowerings:Remark{text=legal}"
    with cpu_with(**KIND, legalisation=(last,)):
        done = invoke("plan", "relu.wir", "-o", "planned.wir", "--json", "--verify-each")
        assert json.loads(done.stdout)["allocations"] == 1
        assert wir.load(room / "planned.wir") == wir.prepare(wir.parse(RELU))
    assert "// legal" in (room / "planned.wir").read_text()


def test_a_fault_of_a_pass_has_the_exit_code_of_third_party_faults(
    room: Path, invoke: Invoke
) -> None:
    (room / "relu.wir").write_text(RELU)
    for name in ("defines_twice", "fails"):
        with cpu_with(lowering=(f"tests.devices.lowerings:{name}",)):
            done = invoke("emit", "relu.wir")
        assert done.exit_code == 3
        assert f"the pass 'tests.devices.lowerings:{name}'" in done.stderr


def test_options_need_a_target(room: Path, invoke: Invoke) -> None:
    assert (room / "small.wir").exists()
    for command in ("lower", "plan"):
        done = invoke(command, "small.wir", "-O", "cuda_graph=true")
        assert done.exit_code == 2
        assert "-O needs --target" in done.stderr
        assert invoke(command, "small.wir", "--target", "cpp", "-O", "arena=kept").exit_code == 0
