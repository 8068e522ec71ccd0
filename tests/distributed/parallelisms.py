"""Ways to spread a model over ranks, each small: cases of ``ranks.py``, which explains them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed import _functional_collectives as collectives
from torch.utils.checkpoint import checkpoint

if TYPE_CHECKING:
    from collections.abc import Callable

    Compile = Callable[..., Callable[..., Any]]


def numbers(*size: int) -> Tensor:
    """Numbers that differ from rank to rank."""
    count = torch.Size(size).numel()
    return (torch.arange(count, dtype=torch.float32).reshape(size) + 1) / (
        7 * count + dist.get_rank()
    )


def gradients(module: nn.Module) -> list[Any]:
    return [p.grad for p in module.parameters()]


class Block(nn.Module):
    """A norm and two products, the same on each rank."""

    def __init__(self, width: int = 6) -> None:
        super().__init__()
        torch.manual_seed(11)
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 8), nn.Linear(8, width)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.down(self.up(self.norm(x)).relu())
        return found


class Recomputing(nn.Module):
    """A block in lower precision that is computed again in the backward."""

    def __init__(self) -> None:
        super().__init__()
        self.block = Block()

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            found: Tensor = checkpoint(self.block, x, use_reentrant=False)
        return found


def line() -> Any:
    from torch.distributed.device_mesh import init_device_mesh

    return init_device_mesh("cpu", (dist.get_world_size(),))


def _plan(prefix: str = "") -> dict[str, Any]:
    from torch.distributed.tensor import Shard
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        SequenceParallel,
    )

    return {
        f"{prefix}norm": SequenceParallel(sequence_dim=0),
        f"{prefix}up": ColwiseParallel(input_layouts=Shard(0)),
        f"{prefix}down": RowwiseParallel(output_layouts=Shard(0)),
    }


def sequence_parallel(compiled: Compile) -> Any:
    """Norms on parts of the sequence, checkpointing and mixed precision."""
    from torch.distributed.tensor.parallel import parallelize_module

    found = []
    for make, prefix in ((Block, ""), (Recomputing, "block.")):
        module = parallelize_module(make(), line(), _plan(prefix))
        loss = compiled(module)(numbers(3, 6)).square().mean()
        loss.backward()
        found += [loss, *gradients(module)]
    return found


def dynamic_tensor_parallel(compiled: Compile) -> Any:
    """A number of rows that varies."""
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )

    plan = {"up": ColwiseParallel(), "down": RowwiseParallel()}
    module = parallelize_module(Block(), line(), plan)
    run = compiled(module, dynamic=True)
    found = []
    for rows in (4, 6, 5):
        loss = run(numbers(rows, 6)).square().mean()
        loss.backward()
        found += [loss, *(p.grad.clone() for p in module.parameters())]
    return found


class Stage(nn.Module):
    def __init__(self, number: int) -> None:
        super().__init__()
        torch.manual_seed(number)
        self.inner = nn.Linear(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(self.inner(x)) * 2


def pipeline(compiled: Compile) -> Any:
    """A stage on each rank, in torch's schedules: messages between programs."""
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe

    rank, count = dist.get_rank(), dist.get_world_size()
    found: list[Any] = []
    for make in (ScheduleGPipe, Schedule1F1B):
        module = Stage(rank)
        stage = PipelineStage(compiled(module), rank, count, torch.device("cpu"))
        schedule = make(stage, n_microbatches=2, loss_fn=lambda y, t: (y - t).square().mean())
        losses: list[Tensor] = []
        given = {"target": torch.ones(4, 6), "losses": losses} if rank == count - 1 else {}
        # Of all stages, only the first has inputs; they are alike on all ranks.
        schedule.step(*((torch.linspace(0, 1, 24).reshape(4, 6),) if rank == 0 else ()), **given)
        found += [*losses, *gradients(module)]
    return found


def context_parallel(compiled: Compile) -> Any:
    """Queries of a part of the sequence, over the keys and values of all of it."""

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        group = dist.group.WORLD
        keys = collectives.all_gather_tensor_autograd(k, 0, group)
        values = collectives.all_gather_tensor_autograd(v, 0, group)
        heads = [each.unflatten(1, (2, 3)).transpose(0, 1) for each in (q, keys, values)]
        return nn.functional.scaled_dot_product_attention(*heads)

    q, k, v = (numbers(4, 6).mul(n).requires_grad_() for n in (1, 2, 3))
    out = compiled(attend)(q, k, v)
    out.square().sum().backward()
    return out, q.grad, k.grad, v.grad


def expert_parallel(compiled: Compile) -> Any:
    """An expert on each rank, and an uneven number of tokens for each."""
    rank, count = dist.get_rank(), dist.get_world_size()
    given = [1 + (rank + other) % 3 for other in range(count)]
    taken = [1 + (other + rank) % 3 for other in range(count)]

    def routed(x: Tensor, weight: Tensor, gate: Tensor) -> Tensor:
        group = dist.group.WORLD
        mine = collectives.all_to_all_single_autograd(x, taken, given, group)
        done = (mine @ weight).relu()
        back = collectives.all_to_all_single_autograd(done, given, taken, group)
        return back * gate

    x = numbers(sum(given), 6).requires_grad_()
    weight = (torch.eye(6) * (rank + 1)).requires_grad_()
    gate = torch.linspace(0.1, 1, sum(given))[:, None]
    out = compiled(routed)(x, weight, gate)
    out.square().sum().backward()
    return out, x.grad, weight.grad


def accumulation(compiled: Compile) -> Any:
    """Gradients of two batches, reduced after the second."""
    module = nn.parallel.DistributedDataParallel(Block())
    run = compiled(module)
    with module.no_sync():
        first = run(numbers(4, 6)).square().mean()
        first.backward()
    second = run(numbers(4, 6) * 2).square().mean()
    second.backward()
    return first, second, *gradients(module)


def fsdp_in_lower_precision(compiled: Compile) -> Any:
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    module = Block()
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    fully_shard(module, mesh=line(), mp_policy=policy)
    loss = compiled(module)(numbers(4, 6)).float().square().mean()
    loss.backward()
    return loss, *gradients(module)


def blocks_in_turn(compiled: Compile) -> Any:
    """Blocks that share a program, each of which FSDP2 frees before it gathers the next."""
    from torch.distributed.fsdp import fully_shard

    module = nn.Sequential(*(compiled(Block(64)) for _ in range(3)))
    for block in module:
        fully_shard(block, mesh=line())
    fully_shard(module, mesh=line())
    found: list[Any] = []
    for number in (1, 2, 3):
        loss = module(numbers(4, 64) * number).square().mean()
        loss.backward()
        found += [loss, *(local(each).clone() for each in gradients(module))]
    return found


def local(tensor: Any) -> Any:
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def _gathered(module: nn.Module, name: str) -> Tensor:
    """Return a parameter as a whole; its gradients are averaged and split again."""
    from torch.distributed.tensor import Partial, Replicate

    shard: Any = module._parameters[name]
    whole: Tensor = shard.redistribute(placements=[Replicate()]).to_local(
        grad_placements=[Partial("avg")]
    )
    return whole


def gathering(model: nn.Module, mesh: Any) -> nn.Module:
    """Spread a model's parameters over a mesh, and gather each where it is read (SimpleFSDP)."""
    from torch.distributed.tensor import Shard, distribute_tensor

    for module in list(model.modules()):
        names = [name for name, _ in module.named_parameters(recurse=False)]
        for name in names:
            shard = distribute_tensor(module._parameters[name].data, mesh, [Shard(0)])
            module._parameters[name] = nn.Parameter(shard)
        if names:
            parts = {name: property(partial(_gathered, name=name)) for name in names}
            kind = type(module)
            module.__class__ = type(f"Gathering{kind.__name__}", (kind,), parts)
    return model


def gathered_in_graphs(compiled: Compile) -> Any:
    """SimpleFSDP: Inductor makes one collective of several, whose results are parts of one."""
    model = gathering(nn.ModuleList(Block() for _ in range(2)), line())
    settings = {
        "enable_overlap_scheduling": True,
        "collective_bucketing": True,
        "compute_estimator": "analytical",
    }

    def loss_of(x: Tensor) -> Tensor:
        for block in model:  # type: ignore[attr-defined]
            x = block(x)
        return x.square().mean()

    changes = {f"aten_distributed_optimizations.{name}": v for name, v in settings.items()}
    with torch._inductor.config.patch(changes):
        loss = compiled(loss_of)(numbers(4, 6))
        loss.backward()
    return loss, *gradients(model)


def distributed_tensors(compiled: Compile) -> Any:
    """Tensors that are spread, and spread otherwise: parts, copies, sums."""
    from torch.distributed.tensor import DTensor, Partial, Replicate, Shard

    mesh = line()

    def each(x: Tensor) -> tuple[Tensor, ...]:
        parts = DTensor.from_local(x * 2, mesh, [Shard(0)], run_check=False)
        whole = parts.redistribute(mesh, [Replicate()])
        turned = parts.redistribute(mesh, [Shard(1)])
        total = DTensor.from_local(x + 1, mesh, [Partial()], run_check=False)
        summed = total.redistribute(mesh, [Replicate()])
        return whole.to_local() + 1, turned.to_local() * 3, summed.to_local(), total.to_local()

    return compiled(each)(numbers(4, 6))


def two_dimensions(compiled: Compile) -> Any:
    """Rows and columns of a mesh: collectives of both, and FSDP2 over tensor parallelism."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor.parallel import parallelize_module

    sizes = dist.get_world_size() // 2, 2
    mesh = init_device_mesh("cpu", sizes, mesh_dim_names=("dp", "tp"))

    def each(x: Tensor) -> Tensor:
        rows = collectives.all_gather_tensor(x * 2, 0, (mesh, 0))
        return collectives.all_reduce(rows + 1, "sum", (mesh, 1)) * 2

    found = [compiled(each)(numbers(4, 6))]
    module = parallelize_module(Block(), mesh["tp"], _plan())
    fully_shard(module, mesh=mesh["dp"])
    loss = compiled(module)(numbers(3, 6)).square().mean()
    loss.backward()
    return [*found, loss, *gradients(module)]


def two_dimensions_on_one_rank(compiled: Compile) -> Any:
    with torch.compiler.config.patch(compile_on_one_rank=True):  # type: ignore[attr-defined]
        return two_dimensions(compiled)


#: As ``CASES`` of ``ranks.py``: the function, and a collective that its programs have to call.
TWO: dict[str, tuple[Callable[..., Any], str]] = {
    "sequence parallel": (sequence_parallel, "reduce_scatter_tensor"),
    "dynamic tensor parallel": (dynamic_tensor_parallel, "all_reduce_"),
    "pipeline": (pipeline, ""),
    "context parallel": (context_parallel, "all_gather_into_tensor"),
    "expert parallel": (expert_parallel, "all_to_all_single"),
    "accumulation": (accumulation, ""),
    "fsdp in lower precision": (fsdp_in_lower_precision, ""),
    "distributed tensors": (distributed_tensors, "all_gather_into_tensor"),
    "two dimensions": (two_dimensions, "all_reduce_"),
}

#: Those that are tried with every emitter, and not in turn.
MORE: dict[str, tuple[Callable[..., Any], str]] = {
    "blocks in turn": (blocks_in_turn, ""),
    "gathered in graphs": (gathered_in_graphs, "reduce_scatter_tensor"),
}

#: Those that need four ranks.
FOUR: dict[str, tuple[Callable[..., Any], str]] = {
    "two dimensions": TWO["two dimensions"],
    "two dimensions on one rank": (two_dimensions_on_one_rank, "all_reduce_"),
}
