"""Probes that run: what each level shows, that it changes nothing, and that it finds the fault."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor, nn

import wrapper_ir as wir
from tests import warm
from tests.emitters.corpus import CASES, program
from wrapper_ir.debug_printer import DebugPrinter, calls_of, insert_probes
from wrapper_ir.lines import Frame, Origin, ProbeLevel
from wrapper_ir.runtime import NonFiniteError, debug_session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wrapper_ir.runtime.probes import DebugSession

LEVELS = [level.value for level in ProbeLevel if level is not ProbeLevel.CHECK]
#: Emitters that render probes.
TARGETS = ["python", "fx", "cpp"]

SCALE = """
wir 2
program @scale inference planned

input %x : f32[4] @cpu
constant %w : f32[4] @cpu = parameter "layer.weight"

kernel @scale(in_ptr0: in f32, in_ptr1: in f32, out_ptr0: out f32, n: i64) cpp
  | #include <cstdint>
  | extern "C" void kernel(const float* a, const float* b, float* out, const int64_t n)
  | {
  |     for (int64_t i = 0; i < n; ++i) out[i] = a[i] * b[i];
  | }
  |
extern aten::log.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)
extern aten::cumsum(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor

  %a = allocate : f32[4] @cpu
  call @scale(%x, %w, out %a, 4)
  %b = allocate : f32[4] @cpu
  aten::log.out(%a, out=out %b)
  free %a
  %c = aten::cumsum(%b, 0) : f32[4] @cpu
  free %b
return %c
"""
X, W = torch.tensor([1.0, 2.0, 3.0, 4.0]), torch.tensor([1.0, 1.0, 2.0, 0.5])


def scale() -> wir.Program:
    return wir.parse(SCALE).replace(data={"w": W})


def placed(made: wir.Program) -> wir.Program:
    """The program with all its lines from one layer of several that share their lines."""
    body = tuple(dataclasses.replace(line, origin=0) for line in made.body)
    origin = Origin(frames=(Frame("net.py", 12),), module="layers.3")
    return made.replace(body=body, origins=(origin,))


@pytest.fixture
def session(tmp_path: Path) -> Iterator[DebugSession]:
    with debug_session(tmp_path / "run", output=tmp_path / "log") as found:
        yield found


def log(tmp_path: Path) -> list[str]:
    return (tmp_path / "log").read_text().splitlines()


@pytest.mark.usefixtures("session")
@pytest.mark.parametrize("target", TARGETS)
def test_print(target: str, tmp_path: Path) -> None:
    wir.compile(scale(), target, debug="print")(X)
    assert log(tmp_path) == [
        "0000 scale before x: f32[4] min=1 max=4 mean=2.5 std=1.29099 [1, 2, 3, 4]",
        (
            "0000 scale before layer.weight: f32[4] min=0.5 max=2 mean=1.125 std=0.629153 "
            "[1, 1, 2, 0.5]"
        ),
        "0000 scale before scalars: 4",
        "0000 scale after a: f32[4] min=1 max=6 mean=2.75 std=2.21736 [1, 2, 6, 2]",
        "0001 aten::log.out before a: f32[4] min=1 max=6 mean=2.75 std=2.21736 [1, 2, 6, 2]",
        (
            "0001 aten::log.out after b: f32[4] min=0 max=1.7917595 mean=0.794513 std=0.740788 "
            "[0, 0.693147, 1.79176, 0.693147]"
        ),
        (
            "0002 aten::cumsum before b: f32[4] min=0 max=1.7917595 mean=0.794513 std=0.740788 "
            "[0, 0.693147, 1.79176, 0.693147]"
        ),
        "0002 aten::cumsum before scalars: 0",
        (
            "0002 aten::cumsum after c: f32[4] min=0 max=3.1780539 mean=1.58903 std=1.48943 "
            "[0, 0.693147, 2.48491, 3.17805]"
        ),
    ]


@pytest.mark.usefixtures("session")
@pytest.mark.parametrize("target", TARGETS)
def test_names(target: str, tmp_path: Path) -> None:
    wir.compile(scale(), target, debug=3)(X)
    assert log(tmp_path) == [
        "0000 scale before",
        "0001 aten::log.out before",
        "0002 aten::cumsum before",
    ]


@pytest.mark.parametrize("target", TARGETS)
def test_save(target: str, session: DebugSession) -> None:
    function = wir.compile(scale(), target, debug="SAVE_ONLY")
    function(X)
    files = sorted(path.name for path in session.directory.glob("*.pt"))
    assert files[:4] == [
        "0000-scale-before-x.pt",
        "0001-scale-before-layer.weight.pt",
        "0002-scale-after-a.pt",
        "0003-aten_log.out-before-a.pt",
    ]
    assert torch.equal(torch.load(session.directory / files[2], weights_only=True), X * W)
    index = [json.loads(x) for x in (session.directory / "index.jsonl").read_text().splitlines()]
    assert [entry["file"] for entry in index if "file" in entry] == files
    assert index[0] == {"call": "0000 scale", "when": "before", "buffer": "", "scalars": [4]}
    assert index.pop(0)["scalars"] == [4]
    assert index[1]["buffer"] == "layer.weight"
    assert (index[1]["dtype"], index[1]["size"], index[1]["stride"]) == ("f32", [4], [1])
    function(X)  # goes on behind, nothing is overwritten
    assert len(list(session.directory.glob("*.pt"))) == 2 * len(files)


def test_a_directory_is_written_by_one_run_only(tmp_path: Path) -> None:
    function = wir.compile(scale(), debug="save")
    found = []
    for _ in range(3):
        with debug_session(tmp_path / "run", output=tmp_path / "log") as session:
            function(X)
            found.append(session.directory.name)
    assert found == ["run", "run.1", "run.2"]


@pytest.mark.parametrize("target", TARGETS)
def test_stats(target: str, session: DebugSession) -> None:
    wir.compile(scale(), target, debug=DebugPrinter("stats", when="after", calls="0"))(X)
    (line,) = (session.directory / "stats.jsonl").read_text().splitlines()
    found = json.loads(line)
    assert found.pop("std") == pytest.approx((X * W).std().item())
    crc = found.pop("checksum")
    assert re.fullmatch("[0-9a-f]{8}", crc)
    layout = {"dtype": "f32", "size": [4], "stride": [1], "device": "cpu"}
    place = {"call": "0000 scale", "when": "after", "buffer": "a"}
    assert found == {**place, **layout, "min": 1.0, "max": 6.0, "mean": 2.75, "nan": 0, "inf": 0}


@pytest.mark.usefixtures("session")
@pytest.mark.parametrize("target", TARGETS)
def test_check_stops_at_the_call_that_made_the_nan(target: str) -> None:
    function = wir.compile(placed(scale()), target, debug="check")
    function(X)
    with pytest.raises(NonFiniteError) as caught:
        function(torch.tensor([1.0, -2.0, 0.0, 4.0]))
    assert caught.value.fields["call"] == "0001 aten::log.out"
    message = str(caught.value)
    assert "wrote NaN to b, first at (1,), 1 in all" in message
    assert "it read a f32[4] in [-2, 2]" in message
    assert "from net.py:12, layers.3" in message


@pytest.mark.usefixtures("session")
@pytest.mark.parametrize("target", TARGETS)
def test_compare_finds_a_planted_fault(target: str, tmp_path: Path) -> None:
    with debug_session(tmp_path / "good", output=tmp_path / "unused"):
        wir.compile(scale(), target, debug="save")(X)
    with debug_session(reference=tmp_path / "good", output=tmp_path / "log"):
        wir.compile(scale(), target, debug="compare")(X)
        assert log(tmp_path) == []
    off_by_one = wir.parse(SCALE.replace("a[i] * b[i]", "a[i] * b[i > 2 ? 2 : i]"))
    with debug_session(reference=tmp_path / "good", output=tmp_path / "log"):
        wir.compile(off_by_one.replace(data={"w": W}), target, debug="compare")(X)
    first = log(tmp_path)[0]
    assert first == "0000 scale after a: 1 of 4 elements differ, most at (3): 8, expected 2"


@pytest.mark.usefixtures("session")
def test_compare_without_a_reference_says_so(tmp_path: Path) -> None:
    wir.compile(scale(), debug="compare")(X)
    assert "nothing to compare with" in log(tmp_path)[0]


@pytest.mark.usefixtures("session")
@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
@pytest.mark.parametrize(
    ("name", "level"),
    [
        *((name, "print") for name in CASES),
        *(("dtypes", level) for level in LEVELS),
        *(("while", level) for level in LEVELS),
        *(("views", level) for level in LEVELS),
    ],
)
def test_results_are_the_same_with_every_level(name: str, level: str) -> None:
    case, made = CASES[name], program(name)
    torch.manual_seed(3)
    inputs = case.make()
    copies = [x.clone() if isinstance(x, Tensor) else x for x in inputs]
    if name in ("symbols", "asserts"):
        copies = list(inputs)
    probed = insert_probes(made, DebugPrinter(level, when="both")) if any(calls_of(made)) else made
    fixed = {key: value.clone() for key, value in made.data.items()}
    expected = wir.compile(made)(*inputs)
    for key, value in made.data.items():
        value.copy_(fixed[key])
    for ours, theirs in zip(wir.compile(probed)(*copies), expected, strict=True):
        same(ours, theirs)


def same(ours: Any, theirs: Any) -> None:
    if not isinstance(theirs, Tensor):
        assert type(ours) is type(theirs)
        assert ours == theirs or (ours != ours and theirs != theirs)
        return
    assert ours.dtype is theirs.dtype
    assert ours.stride() == theirs.stride()
    if theirs.dtype is torch.complex32:
        ours, theirs = torch.view_as_real(ours), torch.view_as_real(theirs)
    bits = [t.contiguous().reshape(-1).view(torch.uint8) for t in (ours, theirs)]
    assert torch.equal(*bits)


@pytest.mark.usefixtures("session")
def test_every_call_has_an_entry(tmp_path: Path) -> None:
    entries = calls = 0
    for name in ("extern_out", "multi_output", "index_put", "constants", "list_results"):
        made = program(name)
        wir.compile(made, debug=DebugPrinter("names", when="both"))(*CASES[name].make())
        calls += len(list(calls_of(made)))
    entries = len(log(tmp_path))
    assert entries == 2 * calls > 10


class Model(nn.Module):
    """A linear layer, a fused kernel, a library op and dropout-free training."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x).relu().cumsum(1).sum()


@pytest.mark.usefixtures("session")
def test_torch_compile_forward_and_backward(tmp_path: Path) -> None:
    torch._dynamo.reset()
    model = Model()
    plain = torch.compile(model, backend="wrapper_ir")
    x = torch.randn(3, 6)
    plain(x).backward()
    expected = model.linear.weight.grad
    assert not (tmp_path / "log").read_text()
    model.zero_grad()
    torch._dynamo.reset()
    with wir.record() as programs:
        compiled = torch.compile(model, backend="wrapper_ir", options={"debug": 2})
        compiled(x).backward()
    assert expected is not None
    assert model.linear.weight.grad is not None
    assert torch.equal(model.linear.weight.grad, expected)
    shown = {line[: line.index(" ", 5)] for line in log(tmp_path)}
    assert shown == {call.label for made in programs for call in calls_of(made)}
    assert any(" before scalars" not in line and "mean=" in line for line in log(tmp_path))


@pytest.mark.usefixtures("session")
def test_torch_compile_takes_level_and_filter_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WRAPPER_IR_DEBUG", "names")
    monkeypatch.setenv("WRAPPER_IR_DEBUG_FILTER", "*cumsum*")
    torch._dynamo.reset()
    with torch.no_grad():
        torch.compile(Model(), backend="wrapper_ir")(torch.randn(3, 6))
    assert [re.sub(r"\d+ ", "", line, count=1) for line in log(tmp_path)] == ["aten::cumsum before"]


@pytest.mark.parametrize("way", ["option", "environment"])
def test_torch_compile_fills_new_memory(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What reads memory before it is written gives NaN; a right program gives what it should."""
    torch._dynamo.reset()
    options = {"debug_poison": True} if way == "option" else {}
    if way == "environment":
        monkeypatch.setenv("WRAPPER_IR_DEBUG_POISON", "1")

    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        return x.cumsum(0) + 1, torch.empty(4)

    right, unset = torch.compile(function, backend="wrapper_ir", options=options)(torch.ones(3))
    assert right.tolist() == [2.0, 3.0, 4.0]
    assert unset.isnan().all()


def test_off_gives_the_same_bytes() -> None:
    plain = wir.plan_memory(scale())
    probed = insert_probes(plain, DebugPrinter("off"))
    assert wir.emit(probed).source == wir.emit(plain).source


def test_logs_of_two_runs_are_equal(tmp_path: Path) -> None:
    made = program("multi_output")
    inputs = CASES["multi_output"].make()
    function = wir.compile(made, debug="print")
    for name in ("one", "two"):
        with debug_session(output=tmp_path / name):
            function(*inputs)
    assert (tmp_path / "one").read_text() == (tmp_path / "two").read_text() != ""


def test_the_directory_is_read_when_the_program_runs(tmp_path: Path) -> None:
    source = wir.emit(insert_probes(scale(), DebugPrinter("save"))).source
    assert str(Path.cwd()) not in source
    assert "wrapper_ir_debug" not in source


CRASH = """
import torch, os, sys
import wrapper_ir as wir
lib = torch.library.Library("crashing", "DEF")
lib.define("now(Tensor x) -> Tensor")
lib.impl("now", lambda x: os.abort(), "CPU")
program = wir.parse(sys.argv[1])
wir.compile(program, debug="names")(torch.ones(4))
"""

CRASHING = """
wir 2
program @p inference planned
input %x : f32[4] @cpu
extern aten::relu(Tensor self) -> Tensor
extern crashing::now(Tensor x) -> Tensor
  %a = aten::relu(%x) : f32[4] @cpu
  %b = crashing::now(%a) : f32[4] @cpu
  free %a
return %b
"""


def test_the_last_line_before_a_crash_names_the_call() -> None:
    done = warm.run(CRASH, CRASHING)
    assert done.returncode != 0
    assert done.stderr.splitlines()[-1] == "0001 crashing::now before"


@pytest.mark.parametrize("level", ["names", "print", "save"])
@pytest.mark.parametrize("target", TARGETS)
def test_ranks_have_files_and_lines_of_their_own(
    target: str, level: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run() -> None:
        with debug_session(tmp_path / "files", output=tmp_path / "log"):
            wir.compile(scale(), target, debug=level)(X)

    run()
    monkeypatch.setenv("WORLD_SIZE", "2")
    for rank in "01":
        monkeypatch.setenv("RANK", rank)
        run()
    alone = (tmp_path / "log").read_text()
    assert (level == "save") == (alone == "")
    for rank in "01":
        lines = [f"rank {rank}: {line}\n" for line in alone.splitlines()]
        assert (tmp_path / f"log.rank{rank}").read_text() == "".join(lines)
    names = ["files", "files.rank0", "files.rank1"] if level == "save" else []
    assert sorted(each.name for each in tmp_path.glob("files*")) == names


def test_a_rank_is_compared_with_its_own_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    for rank in "01":
        monkeypatch.setenv("RANK", rank)
        with debug_session(tmp_path / "saved"):
            wir.compile(scale(), debug="save")(X + int(rank))
    for rank in "01":
        monkeypatch.setenv("RANK", rank)
        with debug_session(reference=tmp_path / "saved", output=tmp_path / "log"):
            wir.compile(scale(), debug="compare")(X + 1)
    assert "elements differ" in (tmp_path / "log.rank0").read_text()
    assert "elements differ" not in (tmp_path / "log.rank1").read_text()
