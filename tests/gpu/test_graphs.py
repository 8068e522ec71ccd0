"""Calls captured as CUDA graphs: the same as without, where they may be and where they may not."""

from __future__ import annotations

import copy
import threading
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

import wrapper_ir as wir
from tests.gpu.cases import CASES, t
from tests.gpu.test_programs import captured, no_tuning_by_time, same
from wrapper_ir.runtime.cuda_graphs import library_statuses, statuses

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["no_tuning_by_time"]

REFUSED = {
    "nonzero": "decides on the GPU how large",
    "to_the_host": "memory of the CPU",
    "from_the_host": "memory of the CPU",
    "number_of_the_host": "the host reads",
    "mixed": "memory of the CPU",
    "not_blocking": "memory of the CPU",
}


def again(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Other numbers in other memory."""
    return tuple(x + 1 if x.dtype.is_floating_point else x.clone() for x in inputs)


@pytest.mark.parametrize("name", CASES)
def test_the_same_as_without(name: str) -> None:
    _, program, inputs = captured(name)
    plain = wir.compile(program)
    replayed: Any = wir.compile(program, cuda_graph=True)
    kept = []
    for _ in range(5):
        inputs = again(inputs)
        others = tuple(x.clone() for x in inputs)  # some programs write to them
        torch.manual_seed(len(kept))
        expected = plain(*others)
        torch.manual_seed(len(kept))
        kept.append((inputs, others, expected, replayed(*inputs)))
    for ours, theirs, expected, actual in kept:
        assert all(map(same, (*actual, *ours), (*expected, *theirs)))
    status = replayed.cuda_graphs.status
    if name in REFUSED:
        assert REFUSED[name] in next(iter(status.reasons))
        assert status.replays == 0
    else:
        assert not status.reasons
        assert status.replays >= 3


@pytest.mark.parametrize("name", ["dynamic", "attention"])
def test_the_same_in_cpp(name: str) -> None:
    _, program, inputs = captured(name)
    plain, replayed = wir.compile(program), wir.compile(program, "cpp", cuda_graph=True)
    for _ in range(5):
        inputs = again(inputs)
        assert all(map(same, replayed(*inputs), plain(*inputs)))
    assert replayed.cuda_graphs.status.replays >= 3  # type: ignore[attr-defined]
    for weight in program.data.values():
        weight.data = weight.data + 1
    assert all(map(same, replayed(*inputs), plain(*inputs)))
    assert not replayed.cuda_graphs.status.reasons  # type: ignore[attr-defined]


def test_sizes_take_turns() -> None:
    _, program, _ = captured("dynamic")
    plain = wir.compile(program)
    replayed: Any = wir.compile(program, cuda_graph=True, cuda_graph_limit=2)
    kept = []
    for size in (2, 7, 2, 7, 2, 7, 200, 200, 200, 2, 2, 7):
        inputs = (t(size, 64), t(64, 64))
        kept.append((inputs, plain(*inputs), replayed(*inputs)))
    assert all(all(map(same, actual, expected)) for _, expected, actual in kept)
    status = replayed.cuda_graphs.status
    assert status.graphs <= 2
    assert status.replays >= 6
    assert not status.reasons


def test_weights_that_are_replaced() -> None:
    _, program, inputs = captured("mlp")
    replayed, plain = wir.compile(program, cuda_graph=True), wir.compile(program)
    weights = program.data.values()
    for _ in range(3):
        replayed(*inputs)
    for weight in weights:
        weight.data.mul_(2)
    assert all(map(same, replayed(*inputs), plain(*inputs)))
    for weight in weights:
        weight.data = weight.data + 1
    assert all(map(same, replayed(*inputs), plain(*inputs)))
    assert replayed.cuda_graphs.status.captures == 2  # type: ignore[attr-defined]


def test_dropout_draws_the_same_numbers() -> None:
    model = nn.Sequential(nn.Linear(64, 64), nn.Dropout(0.5)).cuda().train()
    x, found = t(32, 64), []
    for options in ({}, {"cuda_graph": True}):
        torch._dynamo.reset()
        with torch.no_grad():
            compiled = torch.compile(model, backend="wrapper_ir", options=options)
            torch.manual_seed(3)
            found.append([*(compiled(x) for _ in range(5)), torch.rand(4, device="cuda")])
    assert all(map(same, *found))


def test_training() -> None:
    torch.manual_seed(0)
    ours = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Dropout(0.2), nn.Linear(256, 8)).cuda()
    theirs = copy.deepcopy(ours)
    losses: list[list[torch.Tensor]] = []
    for model, options in ((ours, {"cuda_graph": True}), (theirs, {})):
        torch._dynamo.reset()
        torch.manual_seed(1)
        optimizer = torch.optim.SGD(model.parameters(), 0.01)
        compiled = torch.compile(model, backend="wrapper_ir", options=options)
        losses.append([])
        for _ in range(6):
            # Two forwards before a backward: what the first one saved must stay.
            first, second = compiled(t(32, 64)), compiled(t(32, 64))
            loss = first.square().mean() + second.square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses[-1].append(loss.detach())
    # cuBLAS may add up in another order from one call to the next.
    torch.testing.assert_close(*losses, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close([*ours.parameters()], [*theirs.parameters()], rtol=1e-4, atol=1e-4)
    assert any(status.replays >= 5 for status in statuses())


def test_running_statistics() -> None:
    ours = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU()).cuda().train()
    theirs = copy.deepcopy(ours)
    for model, options in ((ours, {"cuda_graph": True}), (theirs, {})):
        torch._dynamo.reset()
        torch.manual_seed(1)
        compiled = torch.compile(model, backend="wrapper_ir", options=options)
        with torch.no_grad():
            for _ in range(5):
                compiled(t(2, 3, 16, 16))
    torch.testing.assert_close(ours.state_dict(), theirs.state_dict())


def test_streams_and_threads_take_turns() -> None:
    _, program, _ = captured("attention")
    plain, replayed = wir.compile(program), wir.compile(program, cuda_graph=True)
    wrong: list[int] = []

    def work(number: int) -> None:
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for _ in range(20):
                x = t(2, 10, 64) + number
                if not all(map(same, replayed(x), plain(x))):
                    wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert replayed.cuda_graphs.status.replays > 20  # type: ignore[attr-defined]


def test_inside_another_capture() -> None:
    _, program, inputs = captured("pointwise")
    replayed: Any = wir.compile(program, cuda_graph=True)
    for _ in range(3):
        expected = replayed(*inputs)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        actual = replayed(*inputs)
    graph.replay()
    assert all(map(same, actual, expected))
    assert "another capture" in next(iter(replayed.cuda_graphs.status.reasons))


def test_a_capture_that_fails_leaves_nothing_broken() -> None:
    from wrapper_ir.runtime import CudaGraphs

    def call(args: list[Any]) -> tuple[Any, ...]:
        (x,) = args
        args.clear()
        return (x * float(x.sum()) + torch.rand(4, device="cuda"),)

    graphs = CudaGraphs("f", torch.device("cuda", 0))
    function = graphs(call)
    before = torch.cuda.current_stream()
    for _ in range(4):
        function([t(4)])
    assert graphs.status.refused
    assert torch.cuda.current_stream() == before
    torch.manual_seed(0)
    first = torch.rand(8, device="cuda")
    torch.manual_seed(0)
    assert same(first, torch.rand(8, device="cuda"))
    good = CudaGraphs("g", torch.device("cuda", 0))
    function = good(lambda args: (args.pop() * 2,))
    for _ in range(3):
        x = t(4)
        assert same(function([x])[0], x * 2)
    assert good.status.replays == 2


def test_release() -> None:
    _, program, inputs = captured("mlp")
    replayed: Any = wir.compile(program, cuda_graph=True)
    for _ in range(3):
        expected = replayed(*inputs)
    replayed.release()
    for _ in range(3):
        assert all(map(same, replayed(*inputs), expected))


class Halting(nn.Module):
    """Layers with something on the CPU, or a number that the host reads, between them."""

    def __init__(self, halt: str) -> None:
        super().__init__()
        self.halt = halt
        self.layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(6))
        self.register_buffer("calls", torch.zeros(64))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        first = x
        for layer in self.layers[:3]:
            first = layer(first).relu()
        self.calls.add_(first.mean(0))
        if self.halt == "cpu":
            middle = first.cpu().cumsum(0).cuda()
        else:
            middle = first * first.abs().amax().item()
        second = middle + first.t().t()
        for layer in self.layers[3:]:
            second = layer(second).sigmoid()
        return second, first, self.calls + 0


def replays_of_pieces() -> int:
    """How many graphs of pieces were replayed in this process."""
    return sum(s.replays for s in wir.cuda_graph_status() if " at body[" in s.program)


@pytest.mark.parametrize("emitter", ["python", "cpp"])
@pytest.mark.parametrize("halt", ["cpu", "number"])
@pytest.mark.parametrize("is_dynamic", [False, True])
def test_pieces(halt: str, is_dynamic: bool, emitter: str) -> None:
    torch.manual_seed(0)
    before = replays_of_pieces()
    models = [Halting(halt).cuda()]
    models += [copy.deepcopy(models[0]) for _ in range(2)]
    functions = []
    for model, graphs in zip(models, (None, False, True), strict=True):
        torch._dynamo.reset()
        if graphs is None:
            functions.append(model)
            continue
        options = {"emitter": emitter, "cuda_graph": graphs, "cuda_graph_cuts": graphs}
        with torch._dynamo.config.patch(capture_scalar_outputs=True):
            functions.append(
                torch.compile(
                    model, backend="wrapper_ir", options=options, dynamic=is_dynamic, fullgraph=True
                )
            )
    kept = []
    with torch.no_grad(), torch._dynamo.config.patch(capture_scalar_outputs=True):
        for number in range(24):
            rows = (8, 16, 24)[number % 3] if is_dynamic else 8
            x = torch.randn(rows, 64, device="cuda")
            kept.append([function(x) for function in functions])
    for eager, plain, replayed in kept:
        assert all(map(same, replayed, plain))
        torch.testing.assert_close(eager, replayed, rtol=1e-3, atol=1e-3)
    # Inductor may have got rid of the number.
    assert halt == "number" or replays_of_pieces() >= before + 10
    wir.release_kept_memory()


class Dropping(Halting):
    """Likewise, with random numbers in the pieces."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        second, first, calls = super().forward(torch.rand_like(x) + x)
        return second * torch.rand_like(second), first, calls


@pytest.mark.parametrize("kind", [Halting, Dropping])
def test_pieces_of_an_exported_package(kind: type[Halting], tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = kind("cpu").cuda()
    rows = torch.export.Dim("rows", min=2, max=64)
    x = torch.randn(8, 64, device="cuda")
    with torch.no_grad():
        program = wir.capture(model, (x,), dynamic_shapes=({0: rows},))
        functions = []
        for graphs in (False, True):
            target = tmp_path / f"model_{graphs}.pt2"
            wir.export(program, target, cuda_graph=graphs)
            functions.append(torch._inductor.aoti_load_package(str(target)))
        kept = []
        streams = [torch.cuda.current_stream(), torch.cuda.Stream()]
        for number in range(24):
            x = torch.randn((8, 16)[number // 6 % 2], 64, device="cuda")
            with torch.cuda.stream(streams[number // 12]):
                torch.cuda.synchronize()
                found = []
                for function in functions:
                    torch.manual_seed(number)
                    found.append(function(x))
                kept.append(found)
        torch.cuda.synchronize()
        for plain, replayed in kept:
            assert all(map(same, replayed, plain))
    pieces = [each for each in library_statuses() if " at body[" in each.program]
    assert sum(each.replays for each in pieces) >= 10
    assert not any(each.refused for each in pieces)
