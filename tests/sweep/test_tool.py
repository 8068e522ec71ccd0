"""What ``make sweep`` draws, what it finds where a fault is planted, and what it keeps."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest
import torch

from tests.frontends.no_gpu import compiled_for_gpu
from tests.sweep import __main__, crew, judge
from tests.sweep.kit import FAMILIES, SETTINGS
from tests.sweep.planted import PLANTED
from tests.sweep.results import Results, amiss, failures, summary
from tests.sweep.traced import KINDS, traced
from tests.sweep.worker import answered
from tests.sweep.workload import Workload, drawn
from tools.workers import Worker

if TYPE_CHECKING:
    from pathlib import Path

DRAWN = [drawn(0, number, "cuda") for number in range(6 * len(FAMILIES))]


def test_the_same_is_drawn_on_each_machine_and_each_family_in_turn() -> None:
    assert [drawn(0, number, "cuda") for number in range(50)] == DRAWN[:50]
    assert [drawn(1, number, "cuda") for number in range(50)] != DRAWN[:50]
    assert {w.family for w in DRAWN[: len(FAMILIES)]} == set(FAMILIES)
    assert all(str(Workload.parse(str(w))) == str(w) for w in DRAWN)


def test_sizes_are_those_of_models_and_stand_on_both_sides_of_thresholds() -> None:
    elements = [w.elements for w in DRAWN]
    assert sum(n > 10**8 for n in elements) > 50
    assert any(n > 2**31 for n in elements)
    assert min(elements) >= 10**5
    sizes = [size for w in DRAWN for _, size in w.sizes]
    assert {1023, 1024, 1025, 2047, 2048, 4095, 4096, 4097} <= set(sizes)
    assert any(size > 4096 and size % 2 for size in sizes)
    assert {w.setting for w in DRAWN} == {"", *SETTINGS}
    assert {(w.backward, w.dynamic) for w in DRAWN} == {(a, b) for a in (0, 1) for b in (0, 1)}


def test_what_is_no_workload_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        __main__.main(["--try", "softmax rows=2 float32"])
    assert "a workload is 'softmax columns=N rows=N TYPE'" in capsys.readouterr().err
    with pytest.raises(ValueError, match="there is no family 'hardmax'"):
        Workload.parse("hardmax rows=2")


def test_every_setting_is_one_of_this_release() -> None:
    known = torch._inductor.config.get_config_copy()
    assert {key for settings in SETTINGS.values() for key in settings} <= set(known)


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> None:
    for family in PLANTED:
        monkeypatch.setitem(FAMILIES, family.name, family)


@pytest.mark.long
@pytest.mark.usefixtures("planted")
def test_a_planted_difference_and_a_refusal_are_found(tmp_path: Path) -> None:
    results = Results(tmp_path / "kept/sweep.jsonl", "cpu", 7)
    for number, name in enumerate(("other_numbers", "resized", "unsteady", "honest")):
        workload = Workload(name, (("numbers", 100),))
        results.add(number, workload, judge.judged(workload, "cpu", ["python"]))
    rows = list(Results(tmp_path / "kept/sweep.jsonl", "cpu", 7).rows.values())

    said = [row["ways"]["python"] for row in rows]
    assert said[0] == "differs: result 0: other bits, off by 7.7e-01 of its size"
    assert said[1].startswith("refused: ")
    assert "WIR3001" in said[1]
    assert said[2].startswith("near: result 0: other bits")
    assert said[3] == "same"
    assert [bool(amiss(row)) for row in rows] == [True, True, False, False]
    told = "\n".join(failures(rows, "cpu"))
    assert "make sweep DEVICE=cpu TRY='other_numbers numbers=100 float32'" in told
    assert "honest" not in told
    first, *ways = summary(rows)
    assert first == "4 workloads; stock: 3 same twice, 1 differs"
    assert ways == ["  python: 1 differs, 1 refused, 1 near, 1 same"]
    assert "ExternKernelAllocLine" in rows[3]["lines"]
    assert "_inductor.codegen.wrapper.PythonWrapperCodegen.generate_return" in rows[3]["places"]
    assert not Results(tmp_path / "kept/sweep.jsonl", "cpu", 8).rows


#: Answers as a worker does, and dies over one of the emitters.
DEADLY = """
import json, os, sys
for line in sys.stdin:
    ways = json.loads(line)["ways"]
    os.abort() if "fx" in ways else None
    print(json.dumps({"stock": "same twice", "ways": dict.fromkeys(ways, "same")}), flush=True)
"""


def test_a_process_that_is_lost_ends_nothing() -> None:
    worker = Worker((sys.executable, "-c", DEADLY))
    workload = Workload("softmax", (("columns", 2), ("rows", 3)))
    answer = crew.asked(worker, workload, "cpu", ["python", "fx", "cpp"], 60)
    worker.stop()

    lost = "lost: the process ended by SIGABRT"
    assert answer == {"stock": "same twice", "ways": {"python": "same", "fx": lost, "cpp": "same"}}


@pytest.mark.skipif(not torch.backends.cuda.is_built(), reason="this torch knows no GPU at all")
def test_kinds_of_kernels_are_seen() -> None:
    with traced() as seen:
        compiled_for_gpu(lambda x: (x.sum(-1), x.sum(0), x + 1), (8192, 768))
        compiled_for_gpu(lambda x: (x * 2).sum(), (8192, 768))

    assert seen.kernels.keys() <= set(KINDS)
    assert {"reduction of mixed order", "reduction in two kernels"} <= seen.kernels.keys()


def test_memory_is_asked_for_first() -> None:
    assert answered({"device": "cpu"}) == {"free": 1 << 60}
    budget = crew._Budget(100)
    with budget.taken(81) as fits:
        assert not fits
    with budget.taken(80) as fits:
        assert fits
