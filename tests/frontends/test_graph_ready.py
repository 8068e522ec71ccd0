"""What Inductor schedules for a GPU, made ready for CUDA graphs, on a machine without one."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional

import wrapper_ir as wir
from tests.frontends.no_gpu import compiled_for_gpu
from tests.release import TORCH
from wrapper_ir.analysis.cuda_graphs import pieces, why_not_captured
from wrapper_ir.lines import ExternKernel, KernelCall, Program, Switch
from wrapper_ir.passes.branch import branch
from wrapper_ir.passes.cut import cut

pytestmark = [
    pytest.mark.skipif(not torch.backends.cuda.is_built(), reason="this torch knows no GPU at all"),
]


def rendered(program: Program) -> None:
    """Plans and renders a program in every way."""
    for strategy in ("reuse", "pool"):
        planned = wir.verify(wir.plan_memory(wir.verify(program), strategy))
        assert wir.parse(str(planned)) == planned
        compile(wir.emit(planned, cuda_graph=True).source, "wrapper.py", "exec")
        wir.emit(planned, "cpp", cuda_graph=True)
        if TORCH >= (2, 13) or not any(isinstance(line, Switch) for line in planned.body):
            wir.emit(planned, "fx")  # earlier versions have no op for switches


def on_branches(program: Program) -> list[str]:
    """What is on branches: names of ops and kernels."""
    return [
        line.op if isinstance(line, ExternKernel) else "kernel"
        for line in program.body
        if isinstance(line, ExternKernel | KernelCall) and line.stream
    ]


def test_a_gated_block_has_branches() -> None:
    def block(x: Tensor, gate: Tensor, up: Tensor, down: Tensor) -> Tensor:
        for _ in range(2):
            x = x + (functional.silu(x @ gate) * (x @ up)) @ down
        return x

    shapes = ((1, 2048), (2048, 4096), (2048, 4096), (4096, 2048))
    (program,) = compiled_for_gpu(block, *shapes)
    found = branch(program, 2)
    assert on_branches(found) == ["aten::mm.out"] * 2
    rendered(found)


def test_a_prefill_stays_one_chain() -> None:
    def block(x: Tensor, gate: Tensor, up: Tensor) -> Tensor:
        return functional.silu(x @ gate) * (x @ up)

    (program,) = compiled_for_gpu(block, (4096, 2048), (2048, 8192), (2048, 8192))
    assert branch(program, 2) is program


def test_copies_to_the_host_cut() -> None:
    def halting(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
        a = ((x @ w).relu() @ w).sigmoid() @ w
        b = a.cpu().cumsum(0).to("cuda")
        return ((b @ w).relu() @ w).sigmoid() @ a, a

    (program,) = compiled_for_gpu(halting, (64, 64), (64, 64))
    assert why_not_captured(program)
    found = wir.verify(cut(program))
    assert len([line for line in found.body if isinstance(line, Switch)]) == 2
    assert len(pieces(found)) == 2
    rendered(found)
    source = wir.emit(program, cuda_graph=True, cuda_graph_cuts=True).source
    assert source.count("@cuda_graphs.piece(") == 2
