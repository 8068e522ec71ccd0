"""Exported libraries that capture their calls by themselves, loaded by PyTorch's loaders."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor, nn

import wrapper_ir as wir
from tests.export.deploy import compile_program
from tests.gpu.cases import CASES, Function, t
from tests.gpu.test_cpp import printed
from tests.gpu.test_graphs import REFUSED, again
from tests.gpu.test_programs import captured, no_tuning_by_time, same
from tests.native.calls import Native
from wrapper_ir.runtime.apart import SharedMemoryError
from wrapper_ir.runtime.cuda_graphs import statuses_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from wrapper_ir.runtime.cuda_graphs import GraphStatus

__all__ = ["no_tuning_by_time"]


class Exported:
    """A library in this process, one container of it, and the same program as it is."""

    def __init__(
        self, program: wir.Program, folder: Path, runners: int = 1, **options: object
    ) -> None:
        self.plain = wir.compile(program, "cpp")
        self.file = wir.export(program, folder / "model.so", cuda_graph=True, **options)
        runner = torch._C._aoti.AOTIModelContainerRunnerCuda
        self.runner = runner(str(self.file), runners, "cuda", "")

    def __call__(self, *inputs: Tensor) -> list[Tensor]:
        results: list[Tensor] = self.runner.run(list(inputs))
        return results

    @property
    def status(self) -> GraphStatus:
        (found,) = statuses_of(self.file)
        return found


def program_of(
    function: Callable[..., Any], *inputs: Tensor, **options: Any
) -> tuple[wir.Program, tuple[Tensor, ...]]:
    torch._dynamo.reset()
    with torch.no_grad():
        return wir.capture(Function(function), inputs, **options), inputs


@pytest.mark.parametrize("name", CASES)
def test_the_same_as_without(name: str, tmp_path: Path) -> None:
    _, program, inputs = captured(name)
    exported = Exported(program, tmp_path)
    kept = []
    for _ in range(5):
        inputs = again(inputs)
        others = tuple(x.clone() for x in inputs)  # some programs write to them
        torch.manual_seed(len(kept))
        expected = exported.plain(*others)
        torch.manual_seed(len(kept))
        kept.append((inputs, others, expected, exported(*inputs)))
    for ours, theirs, expected, actual in kept:
        assert len(actual) == len(expected)
        assert all(map(same, (*actual, *ours), (*expected, *theirs)))
    status = exported.status
    if name in REFUSED:
        assert REFUSED[name] in next(iter(status.reasons))
        assert (status.replays, status.refused) == (0, True)
    else:
        assert not status.reasons
        assert status.replays >= 3


FRESH = """
import ctypes, glob, json, sys
import torch
kind, file, where = sys.argv[1:]
inputs = torch.load(where + "/inputs.pt")
if kind == "package":
    loaded = torch._inductor.aoti_load_package(file)
    run = lambda inputs: loaded(*inputs)
else:
    runner = torch._C._aoti.AOTIModelContainerRunnerCuda(file, 1, "cuda", "")
    run = lambda inputs: runner.run(list(inputs))
kept = []
for turn in range(6):
    found = run([x + turn for x in inputs])
    kept.append([x.clone() for x in found] if isinstance(found, (list, tuple)) else [found])
torch.save(kept, where + "/results.pt")
libraries = {row.split()[-1] for row in open("/proc/self/maps") if row.rstrip().endswith(".so")}
for each in libraries:
    function = getattr(ctypes.CDLL(each), "WrapperIRModelContainerGetCudaGraphStatus", None)
    if function is not None:
        text = ctypes.c_char_p()
        assert function(None, ctypes.byref(text)) == 0
        print(text.value.decode())
assert "wrapper_ir" not in sys.modules
"""


@pytest.mark.parametrize("kind", ["package", "library"])
@pytest.mark.parametrize("name", ["dynamic", "attention"])
def test_a_process_of_its_own(kind: str, name: str, tmp_path: Path) -> None:
    _, program, inputs = captured(name)
    target = tmp_path / ("model.pt2" if kind == "package" else "model.so")
    wir.export(program, target, cuda_graph=True)
    torch.save(inputs, tmp_path / "inputs.pt")
    command = [sys.executable, "-c", FRESH, kind, str(target), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (status,) = json.loads(done.stdout)
    assert status["replays"] == 5, status
    assert not status["reasons"]
    plain = wir.compile(program)
    for turn, results in enumerate(torch.load(tmp_path / "results.pt")):
        assert all(map(same, results, plain(*(x + turn for x in inputs))))


def test_sizes_take_turns(tmp_path: Path) -> None:
    _, program, _ = captured("dynamic")
    exported = Exported(program, tmp_path, cuda_graph_limit=2)
    kept = []
    for size in (2, 7, 2, 7, 2, 7, 200, 200, 200, 2, 2, 7):
        inputs = (t(size, 64), t(64, 64))
        kept.append((inputs, exported.plain(*inputs), exported(*inputs)))
    assert all(all(map(same, actual, expected)) for _, expected, actual in kept)
    status = exported.status
    assert status.graphs <= 2
    assert status.replays >= 6
    assert not status.reasons


def test_inputs_that_stay_and_inputs_that_move(tmp_path: Path) -> None:
    _, program, inputs = captured("pointwise")
    exported = Exported(program, tmp_path)
    x, w = inputs
    for turn in range(8):
        w.add_(turn)  # where it is
        given = x if turn < 4 else x + turn  # elsewhere in each call
        kept = given.clone()
        assert all(map(same, exported(given, w), exported.plain(given, w)))
        assert same(given, kept)
    status = exported.status
    assert status.captures == 2
    assert (status.graphs, status.plain) == (1, 1)


def test_inputs_that_are_written_to(tmp_path: Path) -> None:
    def step(x: Tensor, y: Tensor) -> Tensor:
        x.add_(y)
        return x * 2

    program, (x, y) = program_of(step, t(8, 16), t(8, 16))
    exported = Exported(program, tmp_path)
    for turn in range(8):
        ours = x if turn < 4 else (x + turn)
        theirs = ours.clone()
        expected, actual = exported.plain(theirs, y), exported(ours, y)
        assert same(ours, theirs)
        assert all(map(same, actual, expected))
    assert exported.status.replays >= 5
    # The one that is written to may share memory with no other.
    both = t(16, 16)
    for function in (exported.plain, exported):
        with pytest.raises((SharedMemoryError, RuntimeError), match="share"):
            function(both[:8], both[:8])


def test_what_lies_between_the_elements_of_an_input_stays(tmp_path: Path) -> None:
    whole = t(8, 32)

    def step(x: Tensor) -> Tensor:
        x.mul_(2)
        return x + 1

    program, _ = program_of(step, whole[:, :16])
    exported = Exported(program, tmp_path)
    for turn in range(6):
        ours, theirs = whole + turn, whole + turn
        expected, actual = exported.plain(theirs[:, :16]), exported(ours[:, :16])
        assert same(ours, theirs)
        assert all(map(same, actual, expected))
    assert exported.status.replays >= 3


def test_results_that_share_memory(tmp_path: Path) -> None:
    def views(x: Tensor) -> tuple[Tensor, ...]:
        y = x * 2
        return y, y[2:], y.t(), x, x[1:], y.view(torch.int32)[:, 3:]

    program, (x,) = program_of(views, t(8, 16))
    exported, kept = Exported(program, tmp_path), []
    for turn in range(5):
        given = x + turn
        kept.append((given, exported(given), exported.plain(given)))
    for given, actual, expected in kept:
        assert all(map(same, actual, expected))
        for ours, theirs in zip(actual, expected, strict=True):
            assert ours.stride() == theirs.stride()
            is_input = ours.untyped_storage().data_ptr() == given.untyped_storage().data_ptr()
            is_theirs = theirs.untyped_storage().data_ptr() == given.untyped_storage().data_ptr()
            assert is_input == is_theirs
        storages = {each.untyped_storage().data_ptr() for each in actual}
        assert len(storages) == len({each.untyped_storage().data_ptr() for each in expected})
    results = kept[-1][1]
    expected = [each.clone() for each in results]
    del exported
    gc.collect()
    assert all(map(same, results, expected))


def test_results_that_are_shared_with_later_calls(tmp_path: Path) -> None:
    _, program, inputs = captured("softmax")
    exported = Exported(program, tmp_path, cuda_graph_results="shared")
    for _ in range(4):
        inputs = again(inputs)
        assert all(map(same, exported(*inputs), exported.plain(*inputs)))
    first, second = exported(*inputs), exported(*inputs)
    assert [x.data_ptr() for x in first] == [x.data_ptr() for x in second]


def test_constants_that_are_exchanged(tmp_path: Path) -> None:
    _, program, inputs = captured("mlp")
    exported = Exported(program, tmp_path)
    names = exported.runner.get_constant_names_to_original_fqns()
    for turn in range(1, 5):
        for _ in range(3):
            assert all(map(same, exported(*inputs), exported.plain(*inputs)))
        for value in program.data.values():  # those that `plain` uses
            value.data.add_(turn)
        changed = {names[name]: value.detach().clone() for name, value in program.data.items()}
        inactive = turn == 2
        exported.runner.update_constant_buffer(changed, inactive, False)
        if inactive:
            exported.runner.swap_constant_buffer()
    assert all(map(same, exported(*inputs), exported.plain(*inputs)))
    status = exported.status
    assert status.captures == 4
    assert not status.reasons


def test_threads_with_streams_of_their_own(tmp_path: Path) -> None:
    _, program, (base,) = captured("attention")
    exported = Exported(program, tmp_path, runners=2)
    wrong: list[object] = []
    # Nobody else may draw random numbers while PyTorch captures, so nothing is drawn below.
    torch.cuda.synchronize()

    def work(number: int) -> None:
        try:
            with torch.cuda.stream(torch.cuda.Stream()):
                for turn in range(20):
                    x = base * (number + turn)
                    if not all(map(same, exported(x), exported.plain(x))):
                        wrong.append(number)
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert exported.status.replays > 20
    assert not exported.status.reasons


def test_threads_that_draw_random_numbers(tmp_path: Path) -> None:
    """They may come in any order, but no number twice."""
    program, _ = program_of(lambda x: torch.rand_like(x) + x * 0, t(64, 64))
    exported, found, wrong = Exported(program, tmp_path, runners=4), [], []

    def work() -> None:
        try:
            with torch.cuda.stream(torch.cuda.Stream()):
                x = torch.ones(64, 64, device="cuda")
                mine = [exported(x)[0] for _ in range(20)]
                torch.cuda.current_stream().synchronize()
                found.extend(mine)
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert len({float(x.double().sum()) for x in found}) == 80
    assert exported.status.replays > 20


def test_random_numbers_are_those_of_calls_without_graphs(tmp_path: Path) -> None:
    _, program, inputs = captured("random")
    exported, found = Exported(program, tmp_path), []
    for function in (exported.plain, exported):
        torch.manual_seed(3)
        found.append([x for _ in range(5) for x in function(*inputs)])
        found[-1].append(torch.rand(4, device="cuda"))
    assert all(map(same, *found))
    assert exported.status.replays == 4


def test_inside_another_capture(tmp_path: Path) -> None:
    _, program, inputs = captured("mlp")
    exported = Exported(program, tmp_path)
    for _ in range(3):
        expected = exported(*inputs)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        actual = exported(*inputs)
    graph.replay()
    assert all(map(same, actual, expected))
    assert all(map(same, exported(*inputs), expected))
    status = exported.status
    assert "another capture" in next(iter(status.reasons))
    assert (status.captures, status.replays) == (1, 3)


def test_a_capture_that_fails_leaves_nothing_broken(tmp_path: Path) -> None:
    with torch.library._scoped_library("wir_gpu_tests", "FRAGMENT") as library:
        library.define("waits(Tensor x) -> Tensor")
        library.impl("waits", lambda x: x * float(x.sum()), "CUDA")
        library.impl("waits", torch.empty_like, "Meta")
        program, (x,) = program_of(
            lambda x: torch.ops.wir_gpu_tests.waits(x + 1) * torch.rand_like(x), t(8, 8)
        )
        exported = Exported(program, tmp_path)
        before = torch.cuda.current_stream()
        for turn in range(4):
            torch.manual_seed(turn)
            expected = exported.plain(x)
            torch.manual_seed(turn)
            assert all(map(same, exported(x), expected))
        status = exported.status
    assert (status.replays, status.refused) == (0, True)
    assert "capture failed: " in next(iter(status.reasons))
    assert torch.cuda.current_stream() == before
    torch.manual_seed(0)
    first = torch.rand(8, device="cuda")
    torch.manual_seed(0)
    assert same(first, torch.rand(8, device="cuda"))
    torch.cuda.empty_cache()
    _, program, inputs = captured("random")
    (tmp_path / "good").mkdir()
    good = Exported(program, tmp_path / "good")
    for _ in range(4):
        good(*inputs)
    assert good.status.replays == 3


def test_by_the_interface(tmp_path: Path) -> None:
    """A container function by function: its status, its memory, given streams."""
    _, program, inputs = captured("attention")
    plain = wir.compile(program, "cpp")
    file = wir.export(program, tmp_path / "model.so", cuda_graph=True)
    expected = plain(*inputs)
    with Native(file, 2, device="cuda") as model:
        for _ in range(4):
            results = model.run(inputs, results=len(expected))
            assert all(map(same, results, expected))
        assert [each.replays for each in statuses_of(file)] == [3]
        assert [each.graphs for each in statuses_of(file)] == [1]
        model.call("WrapperIRModelContainerReleaseMemory", model.container, None)
        assert [each.graphs for each in statuses_of(file)] == [0]
        for _ in range(3):
            results = model.run(inputs, results=len(expected))
            assert all(map(same, results, expected))
        assert [each.captures for each in statuses_of(file)] == [2]
    assert statuses_of(file) == []


def test_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, program, inputs = captured("softmax")
    monkeypatch.setenv("WRAPPER_IR_CUDA_GRAPHS", "0")
    exported = Exported(program, tmp_path)
    for _ in range(3):
        assert all(map(same, exported(*inputs), exported.plain(*inputs)))
    assert dict(exported.status.reasons) == {"WRAPPER_IR_CUDA_GRAPHS is 0": 3}


def test_statuses_of_libraries_are_among_all(tmp_path: Path) -> None:
    _, program, inputs = captured("softmax")
    exported = Exported(program, tmp_path)
    for _ in range(3):
        exported(*inputs)
    assert exported.status in wir.cuda_graph_status()


def test_memory_does_not_grow(tmp_path: Path) -> None:
    _, program, _ = captured("attention")
    exported = Exported(program, tmp_path)
    for turn in range(30):
        exported(t(2, 10, 64))
        if turn == 10:
            before = torch.cuda.memory_allocated()
    assert torch.cuda.memory_allocated() <= before + (1 << 16)


def test_a_program_without_python(tmp_path: Path) -> None:
    model, program, _ = captured("mlp")
    package = wir.export(program, tmp_path / "mlp.pt2", cuda_graph=True)
    command = [compile_program(tmp_path), "--calls", "5", package, "32", "64"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ)
    assert done.returncode == 0, done.stderr
    status = json.loads(done.stdout.splitlines()[-1])
    assert status[0]["replays"] == 4
    x = (torch.arange(32 * 64, dtype=torch.float32) / (32 * 64)).reshape(32, 64).cuda()
    with torch.no_grad():
        expected = model(x).flatten().tolist()
    text = "\n".join(done.stdout.splitlines()[:-1])
    assert sorted(printed(text)) == pytest.approx(sorted(expected), abs=2e-4, rel=1e-3)


def test_folders_hold_all_that_is_needed(tmp_path: Path) -> None:
    _, program, _ = captured("softmax")
    folder = wir.export(program, tmp_path / "sources", cuda_graph=True)
    names = {file.name for file in (folder / "runtime" / "src").iterdir()}
    assert {"graph_calls.cpp", "gpu_graphs.cpp", "driver.h"} <= names


def test_training_statistics(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU()).cuda().train()
    x = t(2, 3, 16, 16)
    torch._dynamo.reset()
    with torch.no_grad():
        program = wir.capture(model, (x,))
        exported = Exported(program, tmp_path)
        for _ in range(5):
            # What the program writes to is the container's, and that of `plain` is the model's.
            torch.testing.assert_close(exported(x)[0], exported.plain(x)[0])
    assert exported.status.replays >= 3
