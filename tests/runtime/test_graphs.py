"""Captured calls, with a recorder that stands in for a GPU: it repeats the call in place."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor

import wrapper_ir as wir
from wrapper_ir.runtime import CudaGraphs
from wrapper_ir.runtime.addresses import Addresses
from wrapper_ir.runtime.cuda_graphs.captured import Cache
from wrapper_ir.runtime.cuda_graphs.results import copy, is_dense, place_like

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence


class Again:
    """A recording: the call itself, with the very tensors, its results written to the first ones.

    Like a graph's replay it reads and writes fixed memory and computes nothing when it is made.
    """

    def __init__(self, run: Callable[[], Sequence[Any]]) -> None:
        self._run = run
        self.first: Sequence[Any] = run()

    def replay(self) -> None:
        for old, new in zip(self.first, self._run(), strict=True):
            if isinstance(old, Tensor) and old.data_ptr() != new.data_ptr():
                copy([old], [new])


class Stand:
    """Records on the CPU."""

    device = torch.device("cpu")

    def __init__(self) -> None:
        self.recorded = 0
        self.busy = False
        self.inputs: list[Tensor] = []

    def record(self, run: Callable[[], Sequence[Any]]) -> tuple[Again, Sequence[Any]]:
        self.recorded += 1
        kept = [(tensor, tensor.clone()) for tensor in self.inputs]
        made = Again(run)
        for tensor, value in kept:  # a capture computes nothing
            tensor.copy_(value)
        return made, made.first

    def is_recording(self) -> bool:
        return self.busy

    def order(self, memory: Iterable[Tensor]) -> None:
        pass

    def wait(self) -> None:
        pass


def captured(
    function: Callable[..., Sequence[Any]], recorder: Stand | None = None, **options: Any
) -> tuple[Callable[..., tuple[Any, ...]], CudaGraphs]:
    graphs = CudaGraphs("f", recorder=recorder or Stand(), **options)

    def call(args: list[Any]) -> tuple[Any, ...]:
        given = list(args)
        args.clear()
        with torch.no_grad():
            return tuple(function(*given))

    boxed = graphs(call)
    return (lambda *args: boxed(list(args))), graphs


def counts(graphs: CudaGraphs) -> tuple[int, int, int]:
    status = graphs.status
    return status.plain, status.captures, status.replays


def test_the_first_call_warms_up_and_later_ones_are_replayed() -> None:
    f, graphs = captured(lambda x: (x * 2,))
    x = torch.randn(4)
    results = [f(x)[0] for _ in range(4)]
    assert all(torch.equal(result, x * 2) for result in results)
    assert counts(graphs) == (1, 1, 3)
    assert len({result.data_ptr() for result in results}) == 4
    assert graphs.status.reasons == {}


def test_copied_inputs_decide_nothing() -> None:
    """Of ranks that capture together, some see an input move and others do not."""
    f, graphs = captured(lambda w, x: (w * x,), copied=(1,))
    w, same, other = torch.randn(4), torch.randn(4), torch.randn(4)
    for x in (same, same, other, same):
        assert torch.equal(f(w, x)[0], w * x)
    assert counts(graphs) == (1, 1, 3)


def test_results_stay_as_they_are() -> None:
    f, _ = captured(lambda x: (x * 2,))
    x = torch.zeros(4)
    kept = []
    for number in range(5):
        x.fill_(number)
        kept.append(f(x)[0])
    assert [result[0].item() for result in kept] == [0, 2, 4, 6, 8]


def test_shared_results_are_those_of_the_next_call() -> None:
    f, _ = captured(lambda x: (x * 2,), results="shared")
    x = torch.ones(4)
    f(x)
    first = f(x)[0]
    x.fill_(3)
    second = f(x)[0]
    assert first.data_ptr() == second.data_ptr()
    assert first.tolist() == [6] * 4


def test_an_input_that_stays_is_not_copied_and_one_that_moves_is() -> None:
    seen: list[tuple[int, int]] = []

    def function(x: Tensor, w: Tensor) -> tuple[Tensor]:
        seen.append((x.data_ptr(), w.data_ptr()))
        return (x + w,)

    f, graphs = captured(function)
    w, xs = torch.randn(4), [torch.randn(4) for _ in range(5)]
    for x in xs:
        assert torch.equal(f(x, w)[0], x + w)
    assert counts(graphs) == (1, 1, 4)
    assert seen[-1][1] == w.data_ptr()
    assert seen[-1][0] not in [x.data_ptr() for x in xs]


def test_an_input_that_begins_to_move_is_captured_once_more() -> None:
    f, graphs = captured(lambda x: (x * 2,))
    x = torch.randn(4)
    for _ in range(3):
        f(x)
    others = [torch.randn(4) for _ in range(4)]
    for other in others:
        assert torch.equal(f(other)[0], other * 2)
    assert counts(graphs) == (1, 2, 6)


def test_a_parameter_that_was_replaced_stays_where_it_is() -> None:
    seen: list[int] = []

    def function(x: Tensor, w: Tensor) -> tuple[Tensor]:
        seen.append(w.data_ptr())
        return (x + w,)

    f, graphs = captured(function)
    w, x = torch.nn.Parameter(torch.randn(4)), torch.randn(4)
    for _ in range(3):
        f(x, w)
    w.data = torch.randn(4)
    assert torch.equal(f(x, w)[0], x + w)
    assert seen[-1] == w.data_ptr()
    assert counts(graphs) == (1, 2, 3)


def test_a_constant_that_was_replaced_is_seen() -> None:
    constants = [torch.randn(4)]
    f, graphs = captured(lambda x: (x + constants[0],), constants=lambda: list(constants))
    x = torch.randn(4)
    for _ in range(3):
        f(x)
    constants[0] = torch.randn(4)
    assert torch.equal(f(x)[0], x + constants[0])
    constants[0].fill_(7)
    assert torch.equal(f(x)[0], x + 7)
    assert counts(graphs) == (1, 2, 4)


def test_an_input_that_is_written_to_is_written_to() -> None:
    def function(x: Tensor, y: Tensor) -> tuple[Tensor]:
        x.add_(y)
        return (x * 2,)

    y, recorder = torch.ones(4), Stand()
    f, graphs = captured(function, recorder, writes=(0,))
    for number in range(4):
        x = torch.full((4,), float(number))
        result = f(x, y)[0]
        assert x.tolist() == [number + 1] * 4
        assert result.tolist() == [2 * number + 2] * 4
    assert counts(graphs) == (1, 1, 3)
    stays = torch.zeros(4)
    recorder.inputs = [stays]
    f, graphs = captured(function, recorder, writes=(0,))
    for number in range(1, 5):
        f(stays, y)
        assert stays.tolist() == [number] * 4
    assert counts(graphs) == (1, 1, 3)


def test_inputs_that_share_memory_are_not_torn_apart() -> None:
    def function(x: Tensor, y: Tensor) -> tuple[Tensor]:
        x.add_(1)
        return (y * 2,)

    f, graphs = captured(function, writes=(0,))
    for _ in range(3):
        f(torch.zeros(4), torch.zeros(4))
    whole = torch.zeros(6)
    assert f(whole[:4], whole[2:])[0].tolist() == [2, 2, 0, 0]
    assert list(graphs.status.reasons) == [
        "an input that the program writes to shares memory with another"
    ]


def test_inputs_come_out_as_themselves_and_as_views() -> None:
    def function(x: Tensor, y: Tensor) -> tuple[Any, ...]:
        return x, y.view(2, 2), x.view(torch.int32), y[1:], 3, None

    f, graphs = captured(function)
    for _ in range(4):
        x, y = torch.randn(4), torch.randn(4)
        same, view, cast, part, number, nothing = f(x, y)
        assert same is x
        assert torch.equal(view, y.view(2, 2))
        assert view.data_ptr() == y.data_ptr()
        assert torch.equal(cast, x.view(torch.int32))
        assert part.data_ptr() == y.data_ptr() + 4
        assert (number, nothing) == (3, None)
    assert counts(graphs) == (1, 1, 3)


def test_constants_come_out_as_themselves() -> None:
    w = torch.randn(2, 3)
    f, _ = captured(lambda x: (w, w.t(), x + 1), constants=lambda: [w])
    for _ in range(3):
        same, view, _ = f(torch.randn(4))
        assert same is w
        assert view.data_ptr() == w.data_ptr()
        assert torch.equal(view, w.t())


@pytest.mark.parametrize(
    ("starts", "writes", "constant", "is_captured"),
    [
        ((0, 8), (0,), 16, True),
        ((0, 7), (0,), 16, False),
        ((0, 7), (1,), 16, False),
        ((0, 7), (), 16, True),
        ((0, 8), (1,), 15, False),
        ((0, 8), (0,), 15, True),
        ((0, 7), (0,), 7, False),
        ((8, 8), (0, 1), 16, False),
    ],
)
def test_branches_need_memory_of_their_own_for_what_is_written(
    starts: tuple[int, int], writes: tuple[int, ...], constant: int, is_captured: bool
) -> None:
    """Inputs that stay in place, constants too; those without elements share nothing."""
    memory = torch.zeros(32)
    constants = [memory[constant : constant + 8], memory[4:4]]
    recorder = Stand()
    f, graphs = captured(
        lambda x, y, empty: (x + y,),
        recorder,
        writes=writes,
        branches=True,
        constants=lambda: constants,
    )
    args = [*(memory[start : start + 8] for start in starts), memory[3:3]]
    for _ in range(3):
        f(*args)
    assert (recorder.recorded > 0) == is_captured
    assert bool(graphs.status.replays) == is_captured


def test_results_that_share_memory_go_on_to() -> None:
    def function(x: Tensor) -> tuple[Tensor, ...]:
        y = x * 2
        return y, y[1:], y.view(torch.int32)[::2], y.new_empty(0)

    f, _ = captured(function)
    for _ in range(3):
        x = torch.randn(6)
        whole, part, cast, empty = f(x)
        assert torch.equal(whole, x * 2)
        assert torch.equal(part, whole[1:])
        assert torch.equal(cast, whole.view(torch.int32)[::2])
        assert empty.shape == (0,)
        whole.fill_(5)
        assert part.tolist() == [5] * 5


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.randn(4, 1).expand(4, 5),
        lambda: torch.randn(10).as_strided((4, 3), (2, 1)),
        lambda: torch.randn(4, 6)[:, ::2],
        lambda: torch.randn(4, 6).t(),
        lambda: torch.randn(3, 0, 2),
        lambda: torch.randn(()),
    ],
)
def test_inputs_of_any_strides(make: Callable[[], Tensor]) -> None:
    strides = set()

    def function(x: Tensor) -> tuple[Tensor]:
        strides.add(x.stride())
        return (x * 2,)

    f, graphs = captured(function)
    inputs = [make() for _ in range(4)]
    for x in inputs:
        assert torch.equal(f(x)[0], x * 2)
    assert strides == {inputs[0].stride()}
    assert counts(graphs) == (1, 1, 3)


def test_every_size_has_a_graph_of_its_own_up_to_a_limit() -> None:
    f, graphs = captured(lambda x, n: (x * n,), limit=2)
    xs = []
    for size, number in [(1, 2), (2, 2), (1, 2), (2, 2), (2, 3), (2, 3), (1, 2), (2, 2)]:
        xs.append(x := torch.randn(size))
        assert torch.equal(f(x, number)[0], x * number)
    status = graphs.status
    # (1, 2) is the one that went for (2, 3), and is captured once more; then (2, 2) again.
    assert (status.graphs, status.plain, status.captures) == (2, 3, 5)


def test_what_is_refused_from_the_beginning_runs_the_program(
    caplog: pytest.LogCaptureFixture,
) -> None:
    f, graphs = captured(lambda x: (x * 2,), reasons=("it is a test",))
    for _ in range(3):
        f(torch.ones(1))
    assert graphs.status.reasons == {"it is a test": 3}
    assert graphs.status.refused
    assert [record.getMessage() for record in caplog.records] == [
        "calls of 'f' are not replayed as a CUDA graph: it is a test"
    ]


def test_a_capture_that_fails_is_the_last() -> None:
    class Failing(Stand):
        def record(self, run: Callable[[], Sequence[Any]]) -> tuple[Again, Sequence[Any]]:
            raise RuntimeError("not permitted\nwhile capturing")

    f, graphs = captured(lambda x: (x * 2,), Failing())
    for _ in range(3):
        assert f(torch.ones(1))[0].tolist() == [2]
    assert graphs.status.reasons == {"capture failed: RuntimeError: not permitted": 2}
    assert graphs.status.refused


def test_errors_of_the_program_are_its_own() -> None:
    def function(x: Tensor) -> tuple[Tensor]:
        raise ValueError("no")

    f, graphs = captured(function)
    for _ in range(3):
        with pytest.raises(ValueError, match="no"):
            f(torch.ones(1))
    assert counts(graphs)[1:] == (0, 0)


def test_a_call_that_fails_warms_nothing_up() -> None:
    def function(x: Tensor) -> tuple[Tensor]:
        if x.numel() == 3:
            raise ValueError("wrong size")
        return (x * 2,)

    f, graphs = captured(function)
    for _ in range(3):
        with pytest.raises(ValueError, match="wrong size"):
            f(torch.ones(3))
    x = torch.ones(4)
    results = [f(x)[0].tolist() for _ in range(3)]
    assert results == [[2.0] * 4] * 3
    assert graphs.status.captures == 1
    assert not graphs.status.refused


def test_numbers_are_told_apart_to_the_bit() -> None:
    f, graphs = captured(lambda x, number: (torch.copysign(x, torch.tensor(number)),))
    x = torch.ones(1)
    for _ in range(3):
        assert f(x, 0.0)[0].item() == 1
        assert f(x, -0.0)[0].item() == -1
    for text in ("nan", "nan", "nan"):
        f(x, float(text))
    assert counts(graphs) == (3, 3, 6)


def test_an_inference_tensor_that_moves_is_written_to() -> None:
    f, graphs = captured(lambda x: (x.add_(1),), writes=(0,))
    with torch.inference_mode():
        inputs = [torch.zeros(2) for _ in range(4)]
    for x in inputs[:2]:
        with torch.inference_mode():
            f(x)
    for x in inputs[2:]:
        assert f(x)[0] is x
    assert [x.tolist() for x in inputs] == [[1.0, 1.0]] * 4
    assert graphs.status.captures == 1


def test_another_capture_is_left_alone() -> None:
    recorder = Stand()
    f, graphs = captured(lambda x: (x * 2,), recorder)
    recorder.busy = True
    f(torch.ones(1))
    assert graphs.status.reasons == {"they are part of another capture": 1}
    recorder.busy = False
    for _ in range(2):
        f(torch.ones(1))
    assert graphs.status.replays == 1


def test_inputs_that_are_no_plain_tensors_run_the_program() -> None:
    f, graphs = captured(lambda x: (x * 2,))
    for _ in range(3):
        f(torch.ones(2, dtype=torch.complex64).conj())
    f(torch.ones(2).to_sparse())
    assert sum(graphs.status.reasons.values()) == 4
    assert not graphs.status.refused


def test_each_thread_warms_up_for_itself() -> None:
    f, graphs = captured(lambda x: (x * 2,))
    x, found = torch.ones(1), []
    f(x)
    thread = threading.Thread(target=lambda: found.append(f(x)))
    thread.start()
    thread.join()
    assert found[0][0].tolist() == [2]
    assert counts(graphs) == (2, 0, 0)
    f(x)
    assert counts(graphs) == (2, 1, 1)


def test_a_thread_warms_up_before_it_captures_what_has_moved() -> None:
    f, graphs = captured(lambda x: (x * 2,))
    x, y, found = torch.ones(1), torch.full((1,), 3.0), []
    f(x)
    f(x)
    assert counts(graphs) == (1, 1, 1)
    thread = threading.Thread(target=lambda: found.append(f(y)))
    thread.start()
    thread.join()
    assert found[0][0].tolist() == [6]
    assert counts(graphs) == (2, 1, 1)
    assert f(x)[0].tolist() == [2]
    assert f(y)[0].tolist() == [6]
    assert counts(graphs) == (2, 2, 3)  # the input is copied by now


def test_sizes_that_change_all_the_time_are_given_up() -> None:
    f, graphs = captured(lambda x: (x * 2,), limit=1)
    inputs = [torch.ones(size) for size in (1, 2, 3)]
    for _ in range(80):
        for x in inputs:
            assert f(x)[0].tolist() == [2] * len(x)
    status = graphs.status
    assert status.refused
    assert status.graphs == 0
    assert list(status.reasons) == ["their sizes or addresses change all the time"]


def test_release_drops_the_graphs() -> None:
    f, graphs = captured(lambda x: (x * 2,))
    for _ in range(3):
        f(torch.ones(8))
    assert graphs.release() in (0, 32)  # whether the input moved is the allocator's to say
    assert graphs.status.graphs == 0
    assert f(torch.ones(8))[0].tolist() == [2] * 8


def test_gradients_do_not_reach_into_places() -> None:
    f, _ = captured(lambda x: (x * 2,))
    for _ in range(3):
        x = torch.randn(4, requires_grad=True)
        result = f(x)[0]
        assert torch.equal(result, x * 2)
        assert not result.requires_grad


def test_the_cache_drops_what_was_not_used_for_longest() -> None:
    cache: Cache[str] = Cache(2)
    cache.put(1, "a")
    cache.put(2, "b")
    assert cache.recent(1) == "a"
    cache.put(3, "c")
    assert [cache.recent(key) for key in (1, 2, 3)] == ["a", None, "c"]
    assert cache.room() == "a"
    assert cache.room() is None
    assert len(cache) == 1


def test_dense_is_without_gaps_and_overlaps() -> None:
    dense = [((2, 3), (3, 1)), ((2, 3), (1, 2)), ((), ()), ((1, 4), (9, 1))]
    dense.append(((3, 0), (0, 1)))
    others = [((2, 3), (4, 1)), ((2, 3), (0, 1)), ((3, 2), (1, 1)), ((4,), (2,))]
    assert all(is_dense(*layout) for layout in dense)
    assert not any(is_dense(*layout) for layout in others)
    assert place_like(torch.randn(4, 6)[:, ::2]).stride() == (6, 2)


def test_the_process_knows_of_every_function() -> None:
    f, graphs = captured(lambda x: (x * 2,), reasons=("it is asked for",))
    f(torch.ones(1))
    mine = [each for each in wir.cuda_graph_status() if "it is asked for" in each.reasons]
    assert mine == [graphs.status]


@pytest.mark.parametrize("count", [0, 1, 3, 40])
def test_addresses_are_compared_one_by_one(count: int) -> None:
    tensors: list[Any] = [torch.ones(1), 5, *(torch.ones(1) for _ in range(count))]
    addresses = Addresses({n + 2: tensors[n + 2].data_ptr() for n in range(count)})
    assert addresses.hold(tensors)
    tensors[0] = torch.ones(1)
    assert addresses.hold(tensors)
    for n in range(count):
        other = [*tensors]
        other[n + 2] = torch.ones(1)
        assert not addresses.hold(other)


def test_what_is_no_tensor_has_no_address() -> None:
    tensors: list[Any] = [torch.ones(1) for _ in range(9)]
    addresses = Addresses({n: each.data_ptr() for n, each in enumerate(tensors)})
    tensors[4] = "no tensor"
    with pytest.raises((TypeError, AttributeError)):
        addresses.hold(tensors)


def test_layouts_of_parameters_may_be_taken_on_trust() -> None:
    for checks, captures in ((True, 2), (False, 1)):
        f, graphs = captured(lambda x, w: (x + w.sum(),), checks=checks)
        x, w = torch.ones(2), torch.nn.Parameter(torch.ones(2, 3))
        for _ in range(3):
            f(x, w)
        w.data = w.data.view(3, 2)
        for _ in range(2):
            assert f(x, w)[0].tolist() == [7, 7]
        assert graphs.status.captures == captures
        f(torch.ones(3), w)
        assert graphs.status.plain == captures + 1


def test_an_expanded_input_that_is_written_to_runs_the_program() -> None:
    def function(x: Tensor) -> tuple[()]:
        x.as_strided((1,), (1,)).add_(1)
        return ()

    f, graphs = captured(function, writes=(0,))
    xs = [torch.zeros(1).expand(3) for _ in range(3)]
    for x in xs:
        f(x)
        assert x.tolist() == [1] * 3
    assert list(graphs.status.reasons) == ["input 0 moves, and is written to where it is expanded"]


def test_an_input_with_much_memory_between_its_elements_runs_the_program() -> None:
    f, graphs = captured(lambda x: (x * 2,))
    xs = [torch.ones(5000, 1024)[:, :1] for _ in range(3)]
    for x in xs:
        assert torch.equal(f(x)[0], x * 2)
    assert list(graphs.status.reasons) == [
        "input 0 moves, and has much memory between its elements"
    ]
