"""Captured calls whose work is on branches: the bits of one chain, over and over."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import wrapper_ir as wir
from tests.emitters.corpus import constants
from wrapper_ir.lines import Program, WaitEvent
from wrapper_ir.passes.branch import branch
from wrapper_ir.planning import plan_memory

BLOCK = Path(__file__).parents[1] / "programs" / "not_cpu" / "decoder_block.wir"
LAYERS = 4


def block() -> Program:
    program = wir.parse(BLOCK.read_text(encoding="utf-8"))
    data = {name: (each.cuda() / 64).bfloat16() for name, each in constants(program).items()}
    return program.replace(data=data)


def inputs() -> tuple[Tensor, ...]:
    torch.manual_seed(3)
    caches = [torch.randn(8, 512, 64, device="cuda", dtype=torch.bfloat16) for _ in range(2)]
    x = torch.randn(1, 2048, device="cuda", dtype=torch.bfloat16)
    return x, torch.tensor([5], device="cuda"), *caches


def rounds(function: Any, count: int = 30) -> list[Tensor]:
    """What calls give that each begin where the last one ended, and the caches."""
    x, position, keys, values = inputs()
    for _ in range(count):
        (y,) = function(x, position, keys, values)
        x = y / y.abs().max()
        position += 1
    return [x, keys, values]


def alike(ours: list[Tensor], theirs: list[Tensor]) -> bool:
    return all(map(torch.equal, ours, theirs))


@pytest.mark.parametrize("emitter", ["python", "cpp"])
def test_the_bits_of_one_chain(emitter: str) -> None:
    program = block()
    expected = rounds(wir.compile(program, emitter))
    for branches in (0, 1, 2):
        function: Any = wir.compile(program, emitter, cuda_graph=True, cuda_graph_branches=branches)
        assert alike(rounds(function), expected)
        status = function.cuda_graphs.status
        assert not status.reasons, status
        assert status.replays >= 25


def test_with_products_of_cublas() -> None:
    program = block()
    expected = rounds(wir.compile(program))
    function: Any = wir.compile(program, "cpp", cuda_graph=True, gpu_matmul="cublas")
    assert alike(rounds(function), expected)
    assert not function.cuda_graphs.status.reasons


def test_an_exported_library(tmp_path: Path) -> None:
    program = block()
    expected = rounds(wir.compile(program))
    wir.export(program, tmp_path / "block.pt2", cuda_graph=True)
    package = torch._inductor.aoti_load_package(str(tmp_path / "block.pt2"))
    loader = package.loader
    assert alike(rounds(lambda *args: loader.boxed_run(list(args))), expected)
    (status,) = [each for each in wir.cuda_graph_status() if each.program == "decoder_block"][-1:]
    assert status.replays >= 25
    assert not status.reasons


def test_waits_are_needed() -> None:
    """Without its waits the graph either cannot be captured or, seen often enough, goes wrong."""
    program = plan_memory(branch(block(), 2))
    less = [line for line in program.body if not isinstance(line, WaitEvent) or not line.stream]
    assert wir.diagnose(program.replace(body=tuple(less)))


@pytest.mark.parametrize("emitter", ["python", "cpp"])
def test_inputs_that_share_memory_run_the_program(emitter: str) -> None:
    program = block()
    plain = wir.compile(program, emitter)
    function: Any = wir.compile(program, emitter, cuda_graph=True)
    x, position, keys, _ = inputs()
    theirs = keys.clone()
    for _ in range(4):
        ours = function(x, position, keys, keys)
        assert torch.equal(ours[0], plain(x, position, theirs, theirs)[0])
        assert torch.equal(keys, theirs)
    status = function.cuda_graphs.status
    assert status.replays == 0
    assert "shares memory with another" in next(iter(status.reasons))


def test_in_a_capture_of_the_callers() -> None:
    program = block()
    expected = rounds(wir.compile(program), 6)
    function = wir.compile(program, cuda_graph=True)
    x, position, keys, values = inputs()
    rounds(function, 2)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        (y,) = function(x, position, keys, values)
        following = y / y.abs().max()
        position += 1
        x.copy_(following)
    for _ in range(6):
        graph.replay()
    assert alike([x, keys, values], expected)


class Gated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate, self.up = nn.Linear(2048, 4096, bias=False), nn.Linear(2048, 4096, bias=False)
        self.down = nn.Linear(4096, 2048, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(nn.functional.silu(self.gate(x)) * self.up(x))


@pytest.mark.parametrize("emitter", ["python", "cpp"])
def test_through_torch_compile(emitter: str) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(*[Gated() for _ in range(LAYERS)]).cuda().bfloat16()
    x = torch.randn(1, 2048, device="cuda", dtype=torch.bfloat16)
    with torch.no_grad():
        results = []
        for branches in (0, 2):
            torch._dynamo.reset()
            options = {
                "emitter": emitter,
                "cuda_graph": True,
                "cuda_graph_branches": branches,
            }
            compiled = torch.compile(model, backend="wrapper_ir", options=options)
            results.append([compiled(x + n) for n in range(6)])
            assert wir.cuda_graph_status()[-1].replays >= 3
            wir.release_kept_memory()
    assert alike(*results)


def test_several_lengths_and_a_prefill() -> None:
    """A graph for each length; long ones fill the GPU and stay one chain, with the same bits."""
    torch.manual_seed(0)
    model = nn.Sequential(*[Gated() for _ in range(2)]).cuda().bfloat16()
    example = torch.randn(4, 2048, device="cuda", dtype=torch.bfloat16)
    rows = torch.export.Dim("rows", min=1, max=4096)
    with torch.no_grad():
        program = wir.capture(model, (example,), dynamic_shapes=({0: rows},))
        plain, function = wir.compile(program), wir.compile(program, cuda_graph=True)
        for length in (4, 1024, 17, 4, 1024, 17, 4, 1024, 17, 4):
            x = torch.randn(length, 2048, device="cuda", dtype=torch.bfloat16)
            assert torch.equal(function(x)[0], plain(x)[0])
    status = function.cuda_graphs.status  # type: ignore[attr-defined]
    assert status.graphs == 3
    assert status.replays == 7
