"""Which calls a library captures and how it replays them, on a queue that stands for a GPU."""

from __future__ import annotations

import ctypes
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
import torch
from torch import Tensor

import wrapper_ir as wir
from tests.native.calls import Native, NativeError
from wrapper_ir.runtime.cuda_graphs import library_statuses, statuses_of
from wrapper_ir.toolchain.compiler import library_dirs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.native.conftest import Toolbox
    from wrapper_ir.runtime.cuda_graphs import GraphStatus

SOURCE = Path(__file__).with_name("graph_fixture.cpp")

pytestmark = pytest.mark.filterwarnings("default")  # that calls are not replayed is one


@pytest.fixture(scope="module")
def queued(toolbox: Toolbox) -> Path:
    return toolbox.build("queued", source=SOURCE, graphs=True)


@pytest.fixture(scope="module")
def pieced(toolbox: Toolbox) -> Path:
    return toolbox.build("pieced", "PIECES", source=SOURCE, graphs=True)


class Call(NamedTuple):
    """What one call is given."""

    x: Tensor
    w: Tensor
    total: Tensor

    def expected(self, scale: float, bias: Tensor) -> tuple[Tensor, Tensor]:
        return self.x * scale + self.w + bias, self.total + self.x.sum(0)


BIAS = torch.tensor([1.0, 2, 3, 4])


class Model(Native):
    """A container whose calls are compared with what they ought to give."""

    def __init__(self, library: Path, runners: int = 1) -> None:
        super().__init__(library, runners)
        self.library, self.bias = library, BIAS
        self._kept: list[Call] = []

    @property
    def status(self) -> GraphStatus:
        (found,) = statuses_of(self.library)
        return found

    def check(self, call: Call, scale: float = 2.0) -> list[Any]:
        """Run a call; its results.

        What it is given stays, so that nothing else comes to lie there.
        """
        self._kept.append(call)
        y, total = call.expected(scale, self.bias)
        results: list[Any] = self.run([*call, torch.tensor(scale, dtype=torch.float64)], results=6)
        assert torch.equal(results[0], y)
        assert torch.equal(results[1], y[1:])
        assert torch.equal(results[2], call.x[1:])
        assert torch.equal(results[3], self.bias)
        assert int(results[4]) == len(call.x)
        assert torch.equal(call.total, total)
        assert torch.equal(results[5], total)
        return results


@pytest.fixture
def model(queued: Path) -> Iterator[Model]:
    with Model(queued) as made:
        yield made
    assert statuses_of(queued) == []
    assert made.functions.WrapperIRTestRecordings() == 0


def numbers(*size: int) -> Tensor:
    """Whole ones, so that sums are exact in any order."""
    return torch.randint(100, size).float()


def call(rows: int = 3) -> Call:
    return Call(numbers(rows, 4), numbers(4), numbers(4))


def test_the_first_call_runs_the_second_is_captured(model: Model) -> None:
    given, kept = call(), []
    for turn in range(5):
        given.x.add_(turn)
        results = model.check(given)
        kept.append((results[0], results[0].clone()))
        assert results[0]._is_view() is False
        assert results[1].data_ptr() == results[0][1:].data_ptr()  # they share memory, as ever
        assert results[2].data_ptr() == given.x[1:].data_ptr()
        assert results[5].data_ptr() == given.total.data_ptr()
    assert all(torch.equal(*each) for each in kept)  # later calls have not written to them
    assert len({each.data_ptr() for each, _ in kept}) == 5
    status = model.status
    assert (status.program, status.graphs, status.captures) == ("queued", 1, 1)
    assert (status.replays, status.plain, dict(status.reasons)) == (4, 1, {})
    assert not status.refused


def test_inputs_that_move_are_copied(model: Model) -> None:
    given = call()
    for _ in range(3):
        model.check(given)
    for _ in range(4):
        model.check(given._replace(x=numbers(3, 4)))
    assert model.status.captures == 2
    for _ in range(4):
        model.check(call())
    assert model.status.captures == 3  # for two that had not moved before, at once
    assert model.status.plain == 1


def test_after_three_surprises_every_input_is_copied(model: Model) -> None:
    first = call()
    for name in (None, None, "x", "w", "total", "total", "w", "x"):
        fresh = {} if name is None else {name: getattr(call(), name)}
        model.check(first._replace(**fresh))
    assert model.status.captures == 4


def test_an_input_that_is_written_to_shares_memory_with_one_that_moves(model: Model) -> None:
    for _ in range(4):
        model.check(call())
    memory = numbers(8)
    results = model.run([numbers(3, 4), memory[2:6], memory[:4], torch.tensor(2.0)], results=6)
    assert results[0] is not None
    reasons = dict(model.status.reasons)
    assert reasons == {"an input that the program writes to shares memory with another": 1}
    model.check(Call(numbers(3, 4), memory[4:], memory[:4]))
    assert dict(model.status.reasons) == reasons


def test_rows_that_are_not_dense(model: Model) -> None:
    for _ in range(4):
        whole = numbers(3, 8)
        model.check(call()._replace(x=whole[:, :4]))
    assert model.status.replays == 3
    model.check(call()._replace(x=numbers(1, 4).expand(3, 4)))  # of another layout


def test_sizes_have_graphs_of_their_own_and_the_oldest_goes(model: Model) -> None:
    given = {rows: call(rows) for rows in (1, 2, 3)}
    for rows in (1, 1, 2, 2, 1, 3, 3):  # 2 was used longest ago
        model.check(given[rows])
        assert model.status.graphs <= 2
    assert model.status.captures == 3
    model.check(given[1])
    assert model.status.captures == 3
    model.check(given[2])
    assert (model.status.captures, model.status.graphs) == (4, 2)
    assert model.status.plain == 3


def test_numbers_have_graphs_of_their_own(model: Model) -> None:
    given = call()
    for scale in (1.0, 1.0, 0.0, 0.0, -0.0, -0.0, 1.0):
        model.check(given, scale)
    assert model.status.plain == 3


def test_sizes_that_never_come_again(model: Model) -> None:
    for rows in range(1, 40):
        model.check(call(rows))
    status = model.status
    assert (status.plain, status.captures, status.refused) == (39, 0, False)


def test_patience_has_an_end(model: Model) -> None:
    given = [call(rows) for rows in (1, 2, 3)]
    for turn in range(30):  # each graph is replayed once, and has to go then
        for each in given:
            model.check(each)
        assert model.status.refused == (turn >= 22)
    assert (model.status.captures, model.status.graphs) == (65, 0)
    assert dict(model.status.reasons) == {"their sizes or addresses change all the time": 22}


def test_calls_that_are_captured_by_somebody_else(model: Model) -> None:
    model.check(call())
    for _ in range(3):
        model.functions.WrapperIRTestCapture(True)
        model.check(call())
        model.functions.WrapperIRTestCapture(False)
    assert dict(model.status.reasons) == {"they are part of another capture": 3}
    model.check(call())
    assert model.status.replays == 1


def test_a_capture_that_fails(model: Model) -> None:
    given = call()
    model.check(given)
    model.functions.WrapperIRTestFail()
    for _ in range(3):
        model.check(given)
    status = model.status
    assert (status.graphs, status.replays, status.plain, status.refused) == (0, 0, 4, True)
    assert dict(status.reasons) == {"capture failed: it waited": 3}


def test_inputs_that_are_refused_leave_the_graphs(model: Model) -> None:
    given = call()
    for _ in range(3):
        model.check(given)
    with pytest.raises(NativeError, match="WIR2151"):
        model.run([numbers(3, 5), *given[1:], torch.tensor(1.0)], results=6)
    with pytest.raises(NativeError, match="s0 >= 1"):
        model.run([numbers(0, 4), *given[1:], torch.tensor(1.0)], results=6)
    model.check(given)
    status = model.status
    assert (status.graphs, status.captures, status.replays) == (1, 1, 3)


def test_constants_that_are_exchanged(model: Model) -> None:
    given = call()
    for turn in range(3):
        for _ in range(3):
            model.check(given)
        model.bias = BIAS + turn + 1
        inactive = turn == 1
        pairs = {"linear.bias": model.bias}
        model.update("UpdateConstantBufferPairs", pairs, inactive, False)
        if inactive:
            model("SwapConstantBuffer")
    model.check(given)
    assert model.status.captures == 3
    assert model.status.graphs == 0


def test_memory_is_released(model: Model) -> None:
    for _ in range(4):
        model.check(call())
    bytes_ = ctypes.c_uint64()
    release = "WrapperIRModelContainerReleaseMemory"
    model.call(release, model.container, ctypes.byref(bytes_))
    assert bytes_.value == 100 + 3 * 16 + 16 + 16  # a state, places of x, w and total
    assert model.status.graphs == 0
    for _ in range(3):
        model.check(call())
    assert model.status.captures == 2


def test_a_piece_works_with_the_state_of_its_program(pieced: Path) -> None:
    with Model(pieced) as model:
        given = call()
        first, *later = [model.check(given) for _ in range(4)]
        assert len({each[0].data_ptr() for each in later}) == 1  # they stay in the graph's memory
        assert later[0][0].data_ptr() != first[0].data_ptr()
        status = model.status
        assert status.program == "queued at body[0]"
        assert (status.captures, status.replays, status.plain) == (1, 3, 1)
        model.bias = BIAS + 1
        model.update("UpdateConstantBufferPairs", {"linear.bias": model.bias}, False, False)
        model.check(given)
        bytes_ = ctypes.c_uint64()
        release = "WrapperIRModelContainerReleaseMemory"
        model.call(release, model.container, ctypes.byref(bytes_))
        model.functions.WrapperIRTestFail()
        for _ in range(3):
            model.check(given)
        assert (model.status.plain, model.status.refused) == (3, True)
    assert model.functions.WrapperIRTestRecordings() == 0


def test_what_another_piece_makes_is_not_copied_at_once(pieced: Path) -> None:
    with Model(pieced) as model:
        given = call()
        captures = []
        for _ in range(2):
            model.check(given)
        for _ in range(6):
            model.check(given._replace(x=numbers(3, 4)))
            captures.append(model.status.captures)
        assert captures == [2, 3, 4, 4, 4, 4]


def test_results_outlive_the_container(queued: Path) -> None:
    with Model(queued) as model:
        for _ in range(3):
            given = call()
            results = model.check(given)
    expected = given.expected(2.0, BIAS)[0]
    assert torch.equal(results[0], expected)
    assert torch.equal(results[1], expected[1:])


def test_runners_have_graphs_of_their_own(queued: Path) -> None:
    wrong: list[object] = []

    def work() -> None:
        try:
            for rows in (3, 3, 3, 5, 5, 5) * 5:
                model.check(call(rows))  # type: ignore[attr-defined]
        except Exception as error:
            wrong.append(error)

    with Model(queued, 2) as model:
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong
        status = model.status
        assert status.plain + status.replays == 4 * 30
        assert status.graphs <= 4


def test_another_thread_runs_the_program_once_before_it_captures(model: Model) -> None:
    given = call()
    model.check(given)
    thread = threading.Thread(target=model.check, args=(given,))
    thread.start()
    thread.join()
    assert (model.status.plain, model.status.captures) == (2, 0)
    model.check(given)
    assert model.status.captures == 1


def test_reasons_known_before(queued: Path, model: Model) -> None:
    model.functions.WrapperIRTestRefuse(True)
    with Model(queued) as refused:
        model.functions.WrapperIRTestRefuse(False)
        for _ in range(3):
            refused.check(call())
        reasons = [('body[9]: it says "no"', 3), ("body[10]: it does, too", 3)]  # in this order
        (other,) = (each for each in statuses_of(queued) if each.reasons)
        assert list(other.reasons.items()) == reasons
        assert other.refused
        assert (other.plain, other.graphs) == (3, 0)


def test_environment(queued: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WRAPPER_IR_CUDA_GRAPHS", "0")
    with Model(queued) as model:
        model.check(call())
        assert dict(model.status.reasons) == {"WRAPPER_IR_CUDA_GRAPHS is 0": 1}


def test_a_reason_is_told_once(queued: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with Model(queued) as model:
        model.functions.WrapperIRTestCapture(True)
        for _ in range(3):
            model.check(call())
        model.functions.WrapperIRTestCapture(False)
    told = capfd.readouterr().err
    expected = "calls of 'queued' are not replayed as a CUDA graph: they are part of another"
    assert told.count(expected) == 1


def test_libraries_are_found_in_the_process(model: Model) -> None:
    model.check(call())
    assert model.status in list(library_statuses())
    assert model.status in wir.cuda_graph_status()
    assert statuses_of(library_dirs()[0] / "libtorch_cpu.so") == []  # none of ours
    assert statuses_of(SOURCE.with_name("nowhere.so")) == []


def test_results_that_are_shared_with_later_calls(queued: Path, model: Model) -> None:
    model.functions.WrapperIRTestShare(True)
    with Model(queued) as sharing:
        for _ in range(3):
            results = sharing.check(call())
        again = sharing.check(call())
        assert [x.data_ptr() for x in again[:2]] == [x.data_ptr() for x in results[:2]]
    model.functions.WrapperIRTestShare(False)
