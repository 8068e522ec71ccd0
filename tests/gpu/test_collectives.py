"""Graphs of programs with collectives, of one rank that is alone over NCCL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed import _functional_collectives as collectives

import wrapper_ir as wir
from wrapper_ir.runtime.cuda_graphs import statuses_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.skipif(
    not (dist.is_available() and dist.is_nccl_available()), reason="this torch has no NCCL"
)


@pytest.fixture(autouse=True)
def alone() -> Iterator[None]:
    """A group of this process."""
    dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
    yield
    wir.release_kept_memory()
    dist.destroy_process_group()
    torch._dynamo.reset()


class Summed(nn.Module):
    """Sums over the ranks, and keeps count."""

    count: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8, 8))
        self.register_buffer("count", torch.zeros(8))

    def forward(self, x: Tensor) -> Tensor:
        self.count.add_(1)
        return collectives.all_reduce((x @ self.weight).sin(), "sum", "0") * self.count


def jitted(model: nn.Module) -> Callable[[Tensor], Tensor]:
    return wir.jit(model, target="cpp", cuda_graph=True, fallback=False)


def in_python(model: nn.Module) -> Any:
    return torch.compile(model, backend="wrapper_ir", options={"cuda_graph": True})


def in_cpp(model: nn.Module) -> Any:
    options = {"cuda_graph": True, "emitter": "cpp", "build": "wait"}
    return torch.compile(model, backend="wrapper_ir", options=options)


@pytest.mark.parametrize("compiled", [jitted, in_python, in_cpp])
def test_a_call_is_captured_once_wherever_its_inputs_are(
    compiled: Callable[[nn.Module], Callable[[Tensor], Tensor]],
) -> None:
    torch.manual_seed(0)
    model, wanted = Summed().cuda(), Summed().cuda()
    wanted.load_state_dict(model.state_dict())
    before, run = wir.cuda_graph_status(), compiled(model)
    same, other = torch.randn(2, 3, 8, device="cuda")
    with torch.no_grad():
        for x in (same, same, same, other, same, other.clone()):
            torch.testing.assert_close(run(x), wanted(x))
    status = wir.cuda_graph_status()
    for each in before:
        status.remove(each)
    assert [(each.captures, each.replays) for each in status] == [(1, 5)]


def test_so_are_calls_that_a_library_captures_itself(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, wanted = Summed().cuda().requires_grad_(False), Summed().cuda()
    wanted.load_state_dict(model.state_dict())
    same, other = torch.randn(2, 3, 8, device="cuda")
    program = wir.capture(model, (same,))
    file = wir.export(program, tmp_path / "model.so", cuda_graph=True)
    runner = torch._C._aoti.AOTIModelContainerRunnerCuda(str(file), 1, "cuda", "")
    with torch.no_grad():
        for x in (same, same, same, other, same, other.clone()):
            torch.testing.assert_close(runner.run([x]), [wanted(x)])
    (status,) = statuses_of(file)
    assert (status.captures, status.replays) == (1, 5)
    del runner  # with its graphs, for which the end of the group would wait


@pytest.mark.parametrize("compiled", [in_python, in_cpp])
def test_so_are_steps_of_training(
    compiled: Callable[[nn.Module], Callable[[Tensor], Tensor]],
) -> None:
    torch.manual_seed(0)
    model, wanted = Summed().cuda(), Summed().cuda()
    wanted.load_state_dict(model.state_dict())
    before, run, stock = wir.cuda_graph_status(), compiled(model), torch.compile(wanted)
    kept = []
    for number in range(6):
        x = torch.randn(3, 8, device="cuda", requires_grad=True)
        y = x.detach().clone().requires_grad_()
        run(x).square().sum().backward()
        stock(y).square().sum().backward()
        pairs = ((x.grad, y.grad), (model.weight.grad, wanted.weight.grad))
        for ours, theirs in pairs:
            assert ours is not None
            torch.testing.assert_close(ours, theirs)
        model.zero_grad()
        wanted.zero_grad()
        kept.append(torch.empty(number + 1, device="cuda"))  # the allocator's past grows
    status = wir.cuda_graph_status()
    for each in before:
        status.remove(each)
    assert [(each.captures, each.replays) for each in status] == 2 * [(1, 5)]
