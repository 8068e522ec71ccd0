"""Streams, events and memory pools of the user's, under ``torch.compile``: results of stock's.

The work on a side stream is long, so that a wait that is missing would be seen.
"""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor
from torch._dynamo.exc import BackendCompilerFailed

import wrapper_ir as wir
from tests.release import TORCH

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [
    pytest.mark.skipif(TORCH < (2, 13), reason="Inductor 2.12 moves waits, and 2.11 has no streams")
]

SIZE = 2048
LAPS = 10


@pytest.fixture(autouse=True)
def _exactly() -> None:
    torch._dynamo.reset()
    torch.backends.cuda.matmul.allow_tf32 = False


def permutation(seed: int) -> Tensor:
    """A matrix whose products are exact, and whose powers all differ."""
    order = torch.randperm(SIZE, generator=torch.Generator().manual_seed(seed))
    return torch.eye(SIZE)[order].to("cuda")


def power(x: Tensor, laps: int) -> Tensor:
    for _ in range(laps):
        x = torch.mm(x, x)
    return x


def by_waiting() -> Callable[[Tensor], Tensor]:
    side = torch.cuda.Stream()

    def run(x: Tensor) -> Tensor:
        y = torch.mm(x, x)
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            late = power(y, 6)
        early = y.sin()
        torch.cuda.current_stream().wait_stream(side)
        return late + early

    return run


def by_events() -> Callable[[Tensor], Tensor]:
    sides, ready = [torch.cuda.Stream() for _ in range(2)], torch.cuda.Event()
    done = [torch.cuda.Event() for _ in range(2)]

    def run(x: Tensor) -> Tensor:
        y = torch.mm(x, x)
        ready.record()
        with torch.cuda.stream(sides[0]):
            ready.wait()
            a = power(y, 5)
            done[0].record()
        with torch.cuda.stream(sides[1]):
            ready.wait()
            b = power(y, 4) * 2
            done[1].record()
        done[0].wait()
        done[1].wait()
        return a + b

    return run


def by_the_host() -> Callable[[Tensor], Tensor]:
    side, done = torch.cuda.Stream(), torch.cuda.Event()

    def run(x: Tensor) -> Tensor:
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            late = power(x, 6)
            done.record()
        done.synchronize()
        torch.cuda.current_stream().wait_stream(side)
        return late * 3

    return run


def with_streams_of_any_device() -> Callable[[Tensor], Tensor]:
    side, ready, done = torch.Stream("cuda"), torch.Event("cuda"), torch.Event("cuda")

    def run(x: Tensor) -> Tensor:
        ready.record()
        with side:
            ready.wait()
            late = power(x, 6)
            done.record()
        done.wait()
        return late + x

    return run


WAYS = {each.__name__: each for each in (by_waiting, by_events, by_the_host)}
WAYS["of_any_device"] = with_streams_of_any_device


@pytest.mark.parametrize("emitter", ["python", "cpp"])
@pytest.mark.parametrize("name", WAYS)
def test_the_same_as_eager(name: str, emitter: str) -> None:
    inputs = [permutation(seed) for seed in range(3)]
    function = WAYS[name]()
    with torch.no_grad():
        wanted = [function(x) for x in inputs]
        torch.cuda.synchronize()
        with wir.record() as programs:
            run = torch.compile(
                function, backend="wrapper_ir", fullgraph=True, options={"emitter": emitter}
            )
            found = [run(inputs[lap % 3]) for lap in range(LAPS)]  # nothing waits between calls
    assert sum(bool(program.streams) for program in programs) == 1
    assert any(stream.user_object is not None for stream in programs[0].streams)
    for lap, each in enumerate(found):
        torch.testing.assert_close(each, wanted[lap % 3], rtol=0, atol=1e-5)


@pytest.mark.parametrize("emitter", ["python", "cpp"])
def test_work_is_on_the_users_stream(emitter: str) -> None:
    """The user's own event, recorded on the stream after a call, comes after the call's work."""
    side = torch.cuda.Stream()

    def run(x: Tensor) -> Tensor:
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            return power(x, 20)

    compiled = torch.compile(
        run, backend="wrapper_ir", fullgraph=True, options={"emitter": emitter}
    )
    x = permutation(1)
    with torch.no_grad():
        compiled(x)
        torch.cuda.synchronize()
        compiled(x)
        busy = not side.query()
        result = compiled(x)
        side.synchronize()
        assert busy
        assert torch.equal(result, power(x, 20))


@pytest.mark.parametrize("emitter", ["python", "cpp"])
def test_memory_of_a_side_stream_is_not_handed_out_early(emitter: str) -> None:
    function = by_waiting()
    run = torch.compile(
        function, backend="wrapper_ir", fullgraph=True, options={"emitter": emitter}
    )
    x = permutation(2)
    with torch.no_grad():
        wanted = function(x)
        for _ in range(LAPS):
            found = run(x)
            spoiled = [torch.full((SIZE, SIZE), 7.0, device="cuda") for _ in range(4)]
            torch.testing.assert_close(found, wanted, rtol=0, atol=1e-5)
            del spoiled, found
            gc.collect()


@pytest.mark.parametrize("emitter", ["python", "cpp"])
def test_streams_that_are_others_in_each_model(emitter: str) -> None:
    """Two compiled functions have numbers for their objects that do not mix."""
    functions = [by_events(), by_waiting(), by_events()]
    runs = [
        torch.compile(f, backend="wrapper_ir", fullgraph=True, options={"emitter": emitter})
        for f in functions
    ]
    x = permutation(3)
    with torch.no_grad():
        wanted = [f(x) for f in functions]
        for _ in range(3):
            for run, each in zip(runs, wanted, strict=True):
                torch.testing.assert_close(run(x), each, rtol=0, atol=1e-5)


@pytest.mark.parametrize("models", [1, 3])
@pytest.mark.parametrize("emitter", ["python", "cpp"])
def test_backward_passes_are_in_order_with_what_is_round_them(emitter: str, models: int) -> None:
    """Stock's are not, and give other gradients; forward passes of other models come between."""
    functions = [with_streams_of_any_device() for _ in range(models)]
    runs = [torch.compile(f, backend="wrapper_ir", options={"emitter": emitter}) for f in functions]

    def steps(calls: list[Callable[[Tensor], Tensor]]) -> list[Tensor]:
        found: list[Tensor] = []
        for lap in range(LAPS):
            inputs = [permutation(lap % 3 + number).requires_grad_() for number in range(models)]
            results = [call(x) for call, x in zip(calls, inputs, strict=True)]
            for result in results:
                (result * 2).sum().backward()
            found += [each.grad * 1 for each in inputs if each.grad is not None]
        return found

    wanted = steps(functions)
    torch.cuda.synchronize()
    with wir.record() as programs:
        found = steps(runs)
    (backward,) = (each for each in programs if each.role is wir.GraphRole.BACKWARD)
    assert backward.streams
    assert len(found) == len(wanted) == LAPS * models
    for mine, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(mine, other, rtol=0, atol=1e-4)


@pytest.mark.skipif(TORCH < (2, 14), reason="Inductor knows memory pools since 2.14")
def test_a_memory_pool() -> None:
    pool = torch.cuda.MemPool()

    def run(x: Tensor) -> tuple[Tensor, Tensor]:
        with torch.cuda.use_mem_pool(pool):
            y = torch.mm(x, x)
        return torch.mm(y, x), y

    x = permutation(4)
    with torch.no_grad():
        compiled: Any = torch.compile(run, backend="wrapper_ir", fullgraph=True)
        z, y = compiled(x)
        assert torch.equal(y, x @ x)
        assert torch.equal(z, x @ x @ x)
        blocks = [
            (part["address"], part["address"] + part["total_size"]) for part in pool.snapshot()
        ]
        assert any(begin <= y.data_ptr() < end for begin, end in blocks)
        assert not any(begin <= z.data_ptr() < end for begin, end in blocks)
        torch._dynamo.reset()
        in_cpp = torch.compile(
            run, backend="wrapper_ir", fullgraph=True, options={"emitter": "cpp"}
        )
        with pytest.raises(BackendCompilerFailed, match="its memory is from memory pool 1"):
            in_cpp(x)
