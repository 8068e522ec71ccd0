"""What the debug printer of stock Inductor gets wrong, each a case that ours gets right.

The numbers are those of a list of its defects, which each test repeats in its first line; every
test runs through ``torch.compile`` with each of our emitters.
"""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor

import wrapper_ir as wir
from wrapper_ir.debug_printer import ProbeEvent, debug_session, hook
from wrapper_ir.errors import OptionValueError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture(params=["python", "fx", "cpp"])
def target(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Runner:
    """Compiles with one emitter and keeps what its probes say."""

    def __init__(self, target: str, folder: Path) -> None:
        self.target = target
        self.folder = folder

    def compile(self, function: Callable[..., Any], **options: object) -> Callable[..., Any]:
        torch._dynamo.reset()
        options["emitter"] = self.target
        return torch.compile(function, backend="wrapper_ir", options=options)

    def log(self, function: Callable[..., Any], *inputs: Any, **options: object) -> list[str]:
        """The lines of one run."""
        compiled = self.compile(function, **options)
        return self.lines(lambda: compiled(*inputs))

    def lines(self, run: Callable[[], object]) -> list[str]:
        file = self.folder / "log"
        file.unlink(missing_ok=True)
        with debug_session(self.folder / "run", output=file):
            run()
        return file.read_text().splitlines()


@pytest.fixture
def runner(target: str, tmp_path: Path) -> Runner:
    return Runner(target, tmp_path)


def starts(lines: list[str]) -> list[str]:
    """Call, phase and buffer of each line."""
    return [line.split(":")[0] if "::" not in line else line.split(": ")[0] for line in lines]


def mm(x: Tensor, w: Tensor) -> Tensor:
    return torch.mm(x, w)


def test_c1_fused_kernels_and_fallbacks_are_printed(runner: Runner) -> None:
    fused = runner.log(lambda x: (x.relu() * 2).softmax(-1), torch.randn(8, 8), debug=2)
    assert any(" before arg0_1: f32[8, 8]" in line for line in fused)
    assert any("cpp_fused" in line and " after buf" in line for line in fused)
    fallback = runner.log(lambda x: torch.sort(x)[0].cumsum(0), torch.randn(8, 8), debug=2)
    words = " ".join(starts(fallback))
    assert re.search(r"aten::sort\S* after buf", words)
    assert re.search(r"aten::cumsum\S* after buf", words)


def test_c2_the_result_of_a_call_is_printed(runner: Runner) -> None:
    lines = runner.log(mm, torch.ones(2, 2), torch.ones(2, 2), debug=2)
    assert [line.split(":", 3)[-1] for line in lines] == [
        " f32[2, 2] min=1 max=1 mean=1 std=0 [[1, 1], [1, 1]]",
        " f32[2, 2] min=1 max=1 mean=1 std=0 [[1, 1], [1, 1]]",
        " f32[2, 2] min=2 max=2 mean=2 std=0 [[2, 2], [2, 2]]",
    ]
    assert lines[2].startswith("0000 aten::mm.out after buf0: ")


def test_c3_training_graphs_and_branches_are_printed(runner: Runner) -> None:
    weight = torch.randn(4, 4, requires_grad=True)
    compiled = runner.compile(mm, debug=2)
    x = torch.randn(4, 4)
    lines = starts(runner.lines(lambda: compiled(x, weight).sum().backward()))
    assert "0000 aten::mm.out before primals_2" in lines
    assert any("before tangents" in line or "before primals_1" in line for line in lines[3:])
    inputs = (torch.tensor(True), torch.randn(4, 4))
    exported = torch.export.export(Branching(), inputs)
    function = wir.compile(wir.from_fx(exported), runner.target, debug=2)
    branches = starts(runner.lines(lambda: function(*inputs)))
    assert len(branches) == 2
    assert re.match(r"\d{4} aten::mm\S* before ", branches[0])
    assert re.match(r"\d{4} aten::mm\S* after ", branches[1])


class Branching(torch.nn.Module):
    def forward(self, p: Tensor, x: Tensor) -> Any:
        return torch.cond(p, lambda x: torch.mm(x, x), lambda x: torch.mm(x, x.t()), (x,))


def test_c4_names_are_printed(runner: Runner) -> None:
    lines = runner.log(lambda x: torch.mm(x.relu(), x), torch.randn(4, 4), debug=3)
    assert lines == ["0000 cpp_fused_relu_0 before", "0001 aten::mm.out before"]


def test_c5_empty_tensors_do_not_end_the_program(runner: Runner) -> None:
    compiled = runner.compile(mm, debug=2)
    results: list[Tensor] = []
    runner.lines(lambda: results.append(compiled(torch.randn(0, 4), torch.randn(4, 4))))
    assert results[0].shape == (0, 4)


def test_c6_limits_are_exact_in_the_type_of_the_tensor(runner: Runner) -> None:
    big = 2**53 + 1  # no float64
    for value, words in (
        (torch.full((4, 4), 1e300, dtype=torch.float64), "min=1e+300 max=1e+300"),
        (torch.full((4, 4), big), f"min={big} max={big}"),
    ):
        lines = runner.log(mm, value, torch.eye(4, dtype=value.dtype), debug=2)
        assert [words in line for line in lines] in ([True, False, True], [False, True, True])


def test_c7_nan_is_counted_and_placed(runner: Runner) -> None:
    x = torch.ones(20, 20)
    x[3, 3] = float("nan")
    lines = runner.log(mm, x, torch.eye(20), debug=2)
    assert any("min=1 max=1 mean=1 std=0 nan=1 first=(3, 3)" in line for line in lines)
    assert "after buf0: f32[20, 20] min=1 max=1 mean=1 std=0 nan=20 first=(3, 0)" in lines[2]


def test_c8_the_directory_is_the_runs_own(
    runner: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled = runner.compile(mm, debug=1)
    for place in ("first", "second"):
        (tmp_path / place).mkdir()
        monkeypatch.chdir(tmp_path / place)
        with debug_session():
            compiled(torch.ones(2, 2), torch.ones(2, 2))
        assert len(list((tmp_path / place / "wrapper_ir_debug").glob("*.pt"))) == 3
        if place == "first":
            for file in (tmp_path / "first").rglob("*.*"):
                file.unlink()
            (tmp_path / "first" / "wrapper_ir_debug").rmdir()


def test_c9_saved_tensors_have_a_file_each(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(runner.folder)
    compiled = runner.compile(lambda x, w: mm(mm(mm(x, w), w), w), debug=1)
    with wir.record() as programs, debug_session(runner.folder / "run") as session:
        compiled(torch.ones(2, 2), torch.ones(2, 2))
    assert len(list(session.directory.glob("*.pt"))) == 9  # of each call two inputs and a result
    planned = wir.insert_probes(wir.plan_memory(programs[0]), wir.DebugPrinter("save"))
    assert str(runner.folder) not in wir.emit(planned, runner.target).source


def test_c10_names_of_files_are_plain(runner: Runner) -> None:
    compiled = runner.compile(lambda x: torch.cumsum(x.relu(), 0), debug="save")
    with debug_session(runner.folder / "run") as session:
        compiled(torch.ones(3))
    names = sorted(file.name for file in session.directory.iterdir())
    assert names[-1] == "index.jsonl"
    assert names[:-1]
    assert all(re.fullmatch(r"\d{4}-[\w.]+-(before|after)-\w+\.pt", name) for name in names[:-1])
    for name in names[:-1]:
        torch.load(session.directory / name, weights_only=True)


def test_c11_a_filter_means_the_same_everywhere(runner: Runner) -> None:
    def function(x: Tensor) -> Tensor:
        return torch.mm(x.relu(), x)

    for pattern in ("mm", "aten::mm.out"):
        lines = runner.log(function, torch.ones(2, 2), debug=2, debug_filter=pattern)
        assert [line[:17] for line in lines] == ["0001 aten::mm.out"] * 3, pattern
    compiled = runner.compile(function, debug="save", debug_filter="mm")
    with debug_session(runner.folder / "run") as session:
        compiled(torch.ones(2, 2))
    assert len(list(session.directory.glob("*.pt"))) == 3


def test_c12_a_filter_is_an_option_of_compile(runner: Runner) -> None:
    with pytest.warns(
        wir.debug_printer.NoCallMatchesWarning, match="close matches: 'aten::mm.out'"
    ):
        runner.log(mm, torch.ones(2, 2), torch.ones(2, 2), debug=2, debug_filter="nm")


def test_c13_levels_are_understood_or_refused_at_once(runner: Runner) -> None:
    for level in (2, "PRINT_ONLY"):
        assert len(runner.log(mm, torch.ones(2, 2), torch.ones(2, 2), debug=level)) == 3
    for level in (True, "4", "on"):
        with pytest.raises(Exception, match="'off', 'save', 'print'") as caught:
            runner.log(mm, torch.ones(2, 2), torch.ones(2, 2), debug=level)
        assert "OptionValueError" in str(caught.value) + type(caught.value).__name__
        with pytest.raises(OptionValueError):
            wir.DebugPrinter(level)


#: What glibc calls the byte that it fills memory with which nobody has written.
M_PERTURB = -6


@pytest.fixture
def perturb() -> Iterator[Callable[[int], object]]:
    """Has the C library, where it can, fill new memory with a byte."""
    mallopt: Callable[[int, int], object] = getattr(ctypes.CDLL(None), "mallopt", lambda *_: None)
    yield lambda byte: mallopt(M_PERTURB, byte)
    mallopt(M_PERTURB, 0)


def test_c14_two_runs_print_the_same(runner: Runner, perturb: Callable[[int], object]) -> None:
    def function(x: Tensor) -> Tensor:
        y = torch.mm(torch.relu(x), x)
        both = torch.cat([y, y + 1])  # one storage, written by two calls
        return both.index_put((torch.tensor([0, 1]),), x[:2]).cumsum(0)

    compiled = runner.compile(function, debug=2)
    x = torch.randn(4, 4)
    logs = []
    for byte in (0, 85):
        perturb(byte)
        logs.append(runner.lines(lambda: compiled(x)))
    assert logs[0] == logs[1]
    assert len(logs[0]) == 12


CRASH = """
import os
import torch
from torch._inductor.cpu_vec_isa import pick_vec_isa
from wrapper_ir.frontends.inductor import compiler
pick_vec_isa()  # which is slow, and so are the imports: once is enough
@torch.library.custom_op("demo::boom", mutates_args=())
def boom(x: torch.Tensor) -> torch.Tensor:
    os.abort()
@boom.register_fake
def _(x):
    return torch.empty_like(x)
def f(x):
    return torch.ops.demo.boom(torch.mm(x.relu(), x)) + 1
for target in ("python", "fx", "cpp"):
    if os.fork():
        os.wait()
        continue
    options = {"emitter": target, "debug": 3}
    torch.compile(f, backend="wrapper_ir", options=options)(torch.randn(4, 4))
    os._exit(0)
"""


@pytest.mark.long
def test_c15_the_last_line_names_the_call_that_crashes() -> None:
    """All emitters in one process that is forked, since to start one takes long."""
    environment = {**os.environ, "WRAPPER_IR_DEBUG_OUTPUT": "stdout", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", CRASH]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == 3 * [
        "0000 cpp_fused_relu_0 before",
        "0001 aten::mm.out before",
        "0002 demo::boom before",
    ]


def test_c16_all_emitters_say_the_same(runner: Runner) -> None:
    lines = runner.log(lambda x: torch.mm(x, x), torch.ones(2, 2), debug=2)
    assert lines == [
        "0000 aten::mm.out before arg0_1: f32[2, 2] min=1 max=1 mean=1 std=0 [[1, 1], [1, 1]]",
        "0000 aten::mm.out after buf0: f32[2, 2] min=2 max=2 mean=2 std=0 [[2, 2], [2, 2]]",
    ]


def test_c39_hooks_see_every_call(runner: Runner) -> None:
    events: list[ProbeEvent] = []
    sums: list[float] = []

    def look(event: ProbeEvent) -> None:
        events.append(event)
        sums.extend(float(tensor.sum()) for tensor in event.tensors.values())

    compiled = runner.compile(lambda x: torch.sort(mm(x.relu(), x))[0].sum(), debug="hook")
    x = torch.ones(4, 4)
    compiled(x)
    assert not events
    with hook(look):
        compiled(x)
    after = [event.name for event in events if event.when == "after"]
    assert [name.partition(".")[0] for name in after] == [
        "cpp_fused_relu_0",
        "aten::mm",
        "aten::sort",
        "cpp_fused_sum_1",
    ]
    assert sums[0] == 16.0
    assert sums[-1] == 64.0


def test_c39_what_a_hook_raises_comes_out(runner: Runner) -> None:
    def look(event: ProbeEvent) -> None:
        raise KeyError(event.call)

    compiled = runner.compile(mm, debug="hook")
    with hook(look), pytest.raises(KeyError, match="0000 aten::mm"):
        compiled(torch.ones(2, 2), torch.ones(2, 2))
    assert compiled(torch.ones(2, 2), torch.ones(2, 2)).tolist() == [[2.0, 2.0], [2.0, 2.0]]
