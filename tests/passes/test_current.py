"""Programs that leave out the number of their GPU: the pass, and what emitters make of them."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
import torch

import wrapper_ir as wir
from wrapper_ir import runtime
from wrapper_ir.emitters.fx.checks import bound_specs
from wrapper_ir.passes import run_passes

if TYPE_CHECKING:
    from pathlib import Path

STEP = """\
wir 2
program @step inference logical

input %x : f32[4] @cuda:1
stream 1 @cuda:1
event 1
event 2

extern aten::relu(Tensor self) -> Tensor
extern aten::zeros(SymInt[] size, *, Device? device=None) -> Tensor

  %a = aten::relu(%x) @cuda:1 : f32[4] @cuda:1
  record_event 1 @cuda:1
  wait_event 1 @cuda:1 stream 1
  record_event 2 @cuda:1 stream 1
  wait_event 2 @cuda:1
  %c = aten::zeros([4], device=@cuda:1) @cuda:1 : f32[4] @cuda:1
return %a, %c
"""


def step() -> wir.Program:
    return wir.verify(wir.parse(STEP))


def test_no_number_is_left_and_nothing_else_changes() -> None:
    program = step()
    current = run_passes(program, ["current-device"], verify_each=True)
    assert str(current) == str(program).replace("cuda:1", "cuda")
    assert run_passes(current, ["current-device"]) is current


def test_ranks_on_different_gpus_have_the_same_text() -> None:
    texts = set()
    for number in range(3):
        program = wir.parse(str(step()).replace("cuda:1", f"cuda:{number}"))
        shared = run_passes(program, ["current-device"])
        texts.add((str(shared), *(wir.emit(shared, name).source for name in ("python", "cpp"))))
    ((text, *sources),) = texts
    assert not any("cuda:" in each for each in (text, *sources))


@pytest.mark.parametrize("other", ["@cuda:0", "@cpu"])
def test_a_program_on_several_gpus_or_on_none_stays_as_it_is(other: str) -> None:
    text = str(step()).replace("%x : f32[4] @cuda:1", f"%x : f32[4] {other}")
    program = wir.parse(text if other != "@cpu" else str(step()).replace("@cuda:1", "@meta"))
    assert run_passes(program, ["current-device"]) is program


def test_what_computes_folded_constants_is_of_the_same_device() -> None:
    inner = step()
    both = step().replace(folding=inner)
    current = run_passes(both, ["current-device"])
    assert current.folding == run_passes(inner, ["current-device"])
    apart = both.replace(folding=wir.parse(str(inner).replace("cuda:1", "cuda:0")))
    assert run_passes(apart, ["current-device"]) is apart


def test_an_argument_may_be_the_current_device_beside_numbers() -> None:
    text = str(step()).replace("device=@cuda:1", "device=@cuda")
    source = wir.emit(wir.verify(wir.parse(text))).source
    assert 'cuda = torch.device("cuda")' in source
    assert "current_device" not in source


def test_a_device_is_bound_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 3)
    assert runtime.current_device("cuda") == torch.device("cuda", 3)
    assert runtime.current_device(torch.device("cuda", 1)) == torch.device("cuda", 1)
    assert runtime.current_device("cpu") == torch.device("cpu")
    chosen: list[int] = []
    monkeypatch.setattr(torch.cuda, "set_device", chosen.append)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    monkeypatch.setenv("LOCAL_RANK", "2")
    runtime.current_device("cuda", "step.wrapper")
    runtime.current_device("cuda", "__main__")
    assert chosen == [2]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert runtime.current_device("cuda") == torch.device("cuda", 0)


def test_checks_of_a_bound_graph_name_its_device() -> None:
    rows: Any = [["x", "float32", [4], [1], "cuda"], ["n", "int64", [], [], "cpu"]]
    bound = json.loads(bound_specs(json.dumps(rows), torch.device("cuda", 2)))
    assert [row[4] for row in bound] == ["cuda:2", "cpu"]


@pytest.mark.parametrize("target", ["python", "cpp"])
def test_a_folder_as_a_script_takes_the_gpu_of_its_rank(target: str, tmp_path: Path) -> None:
    program = run_passes(step(), ["current-device"])
    wir.export(program, f"{tmp_path}/step/", target)
    text = (tmp_path / "step" / "wrapper.py").read_text("utf-8")
    assert re.search(r"""current_device\(["']cuda["'], __name__\)""", text)
    compile(text, "wrapper.py", "exec")
    assert "cuda:" not in "".join(
        each.read_text("utf-8") for each in (tmp_path / "step").rglob("*") if each.is_file()
    )
