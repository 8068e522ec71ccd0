"""A fixed sample of made-up programs: every way to run one gives what the interpreter gives."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import wrapper_ir as wir
from tests.fuzz import compare, kernels
from tests.fuzz.compare import FAST, Run, difference
from tests.fuzz.log import Log
from tests.fuzz.maker import make
from tests.fuzz.reach import Reach
from tests.fuzz.session import Session, probed
from tests.torchbind import needs_classes
from wrapper_ir.debugging import reduce
from wrapper_ir.lines import (
    Comment,
    DType,
    ExternKernel,
    KernelCall,
    Program,
    Stage,
    effects,
    walk,
)

ROOT = Path(__file__).parents[2]

pytestmark = [
    pytest.mark.filterwarnings("ignore:An output with one or more elements was resized"),
    pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental"),
]


@pytest.fixture(scope="module", autouse=True)
def _compiled_kernels() -> None:
    kernels.warm()


@pytest.mark.parametrize("part", range(4))
def test_all_ways_agree(part: int) -> None:
    for seed in range(100 * part, 100 * part + 5):
        made = make(seed)
        assert difference(made.program, made.inputs(), [*FAST]) == "", f"seed {seed}"


def test_a_chunk_of_long_programs_agrees_in_every_way(tmp_path: Path) -> None:
    session = Session(["python", "fx", "cpp"], flags=())
    log = Log(tmp_path / "log")
    cases = session.chunk(9000, 200)
    assert [case.failure for case in cases if case.failure] == []
    ways = {
        f"{way}, {case.plan}" for way in ("interpreter", "python", "fx", "cpp") for case in cases
    }
    assert ways <= session.tally.lines.keys()
    log.add(cases, "all")
    again = Log(tmp_path / "log")
    assert again.lines == sum(case.lines for case in cases)
    assert again.after(5) == 9000 + len(cases)


def test_the_sample_has_everything_in_it() -> None:
    found = Reach()
    for seed in range(60):
        found.add(make(seed).program)
    # Probes go in when a program has been planned. Programs run on the CPU, which has no streams.
    left_out = ["RecordEvent", "WaitEvent", "Synchronize"]
    assert found.missing == [*left_out, "Probe"]
    found.add(probed(wir.plan_memory(make(0).program)))
    assert found.missing == left_out
    dtypes = {dtype for kind, dtype in found.dtypes if kind == "KernelCall"}
    assert {DType.FLOAT16, DType.COMPLEX64, DType.UINT16, DType.FLOAT8_E4M3FN} <= dtypes
    assert "KernelCall" in found.table()


@needs_classes
def test_ways_agree_on_what_objects_hold() -> None:
    full = 0
    for seed in range(400, 430):
        made = make(seed)
        if not any(effects(line).objects for _, line in walk(made.program)):
            continue
        assert difference(made.program, made.inputs(), [*FAST]) == "", f"seed {seed}"
        first, _ = compare.run(made.program, compare.interpreted, made.inputs())
        full += len(first.inputs) > len(made.program.inputs)  # a queue shows all that it holds
    assert full


def test_a_seed_says_all() -> None:
    code = "from tests.fuzz.maker import make; print(make(17).program, make(17).inputs())"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        cwd=ROOT,
        env={"PYTHONHASHSEED": "1", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"{make(17).program} {make(17).inputs()}\n"


def test_a_difference_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(program: Program) -> Run:
        run = wir.compile(program, debug="off")
        return lambda *inputs: tuple(r + 1 if isinstance(r, int) else r for r in run(*inputs))

    monkeypatch.setitem(compare.WAYS, "python, reuse", wrong)
    b = wir.Builder("number")
    b.returns(3)
    program = b.build()
    assert (
        difference(program, [], ["python, reuse"]) == "python, reuse: call 0: results[0]: 4, not 3"
    )
    assert difference(program, [], ["fx, reuse"]) == ""


def test_reduced_programs_are_as_small_as_can_be() -> None:
    logical = [p for p in (make(n).program for n in range(30)) if p.stage is Stage.LOGICAL]
    program = max(logical, key=lambda p: len(p.body))

    def fails(candidate: Program) -> bool:
        lines = [line for _, line in walk(candidate)]
        return any(isinstance(line, (KernelCall, ExternKernel)) for line in lines)

    small = reduce(program, fails)
    wir.verify(small)
    assert fails(small)
    assert not small.results
    calls = [line for line in small.body if isinstance(line, (KernelCall, ExternKernel))]
    assert len(calls) <= 1
    assert not any(isinstance(line, Comment) for line in small.body)
    assert len(small.body) <= 6
