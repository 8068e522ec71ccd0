"""The demo, small, in a process of its own: what it says, and the files that it leaves."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import wrapper_ir as wir

EXAMPLES = Path(__file__).parents[2] / "examples"
DEMO = EXAMPLES / "demo.py"


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any], str]:
    """The directory, the report and the progress of one run of the demo."""
    out = tmp_path_factory.mktemp("demo")
    done = subprocess.run(
        [sys.executable, DEMO, "--layers", "1", "--quick", "--json", "-o", out],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return out, json.loads(done.stdout), done.stderr


@pytest.mark.long
def test_demo_agrees_with_eager_and_with_stock(
    demo: tuple[Path, dict[str, Any], str],
) -> None:
    _, report, _ = demo
    differences = report["differences"]
    for part in ("output", "loss", "gradients", "parameters after the step"):
        row = differences[f"training: {part}"]
        assert row["wrapper_ir - eager"] < 1e-4
        assert row["wrapper_ir - inductor"] == 0.0
    for part in ("inference: output", "exported: output"):
        assert differences[part]["wrapper_ir - eager"] < 1e-4
        assert differences[part]["wrapper_ir - inductor"] == 0.0


@pytest.mark.long
def test_demo_counts_and_times(demo: tuple[Path, dict[str, Any], str]) -> None:
    _, report, progress = demo
    assert set(report["programs"]) == {"forward", "backward", "exported"}
    for facts in report["programs"].values():
        assert facts["lines"]["KernelCall"] > 0
        assert 0 < facts["peak_bytes"] <= facts["total_bytes"]
    for row in report["times"].values():
        assert set(row) == {"eager", "inductor", "wrapper_ir"}
    assert "training: compiling through wrapper_ir" in progress
    # Nothing but our own progress: each line is a step and how long it took.
    assert [line for line in progress.splitlines() if not re.fullmatch(r"  .+ … .+ s", line)] == []


@pytest.mark.long
def test_demo_leaves_a_program_and_a_module_to_go_on_with(
    demo: tuple[Path, dict[str, Any], str], tmp_path: Path
) -> None:
    out, report, _ = demo
    assert sorted(path.name for path in out.iterdir()) == [
        "program.safetensors",
        "program.wir",
        "wrapper.py",
        "wrapper.py.safetensors",
    ]
    assert report["files"] == [str(out / "program.wir"), str(out / "wrapper.py")]
    program = wir.load(out / "program.wir")
    assert program.stage is wir.Stage.PLANNED
    written = (out / "wrapper.py").read_text(encoding="utf-8")
    (identity,) = re.findall(r'^CONSTANTS_HASH = "(.*)"', written, re.MULTILINE)
    assert wir.emit(program, "python").naming(identity) == written
    done = subprocess.run(
        [sys.executable, out / "wrapper.py", "--calls", "2", "--batches", "1"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "result 0: float32[2, 64, 2048]" in done.stdout
    assert "constants are random" not in done.stderr


@pytest.mark.long
def test_timing_takes_turns_and_stops_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(EXAMPLES)
    from demo_report import interleaved_medians

    calls: list[str] = []
    functions = {name: lambda name=name: calls.append(name) for name in "abc"}
    found = interleaved_medians(functions, rounds=4, warmup=1)
    assert "".join(calls) == "abc" + "abc" + "bca" + "cab" + "abc"
    assert {time.calls for time in found.values()} == {4}
    assert all(time.median > 0 <= time.spread for time in found.values())
    assert interleaved_medians(functions, rounds=50, seconds=0)["a"].calls == 3


def test_figures_are_whole_on_a_terminal_of_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(DEMO.parent)
    from demo_report import EAGER, OURS, PAIRED, STOCK, Report, Time, show

    pairs = {f"{one} - {other}": 1.5e-7 for one, other in PAIRED}
    report = Report("decoder")
    report.differences = {"training: parameters after the step": pairs}
    report.times = {"training step": dict.fromkeys((EAGER, STOCK, OURS), Time(0.1555, 0.1, 30))}
    console = Console(width=80, record=True)
    show(report, console)
    text = console.export_text()
    assert "…" not in text
    assert text.count("1.5e-07") == 3
    assert text.count("156 ms +- 64%") == 3
