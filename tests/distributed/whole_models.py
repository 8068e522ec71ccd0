"""Whole models over ranks: cases of ``ranks.py``. Each gathers its parameters in its graphs.

Every parameter is spread over the ranks and gathered where the model reads it (SimpleFSDP), so that
programs, forward and backward, call collectives between all that the model does.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import torch
import torch._functorch.config as functorch_config
import torch.distributed as dist
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from tests.models.zoo import TRAINING

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.models.zoo import Case

    Compile = Callable[..., Callable[..., Any]]

__all__ = ["MODELS", "RANDOM", "gathering"]


def _gathered(module: nn.Module, name: str) -> Tensor:
    from torch.distributed.tensor import Partial, Replicate

    shard: Any = module._parameters[name]
    whole: Tensor = shard.redistribute(placements=[Replicate()]).to_local(
        grad_placements=[Partial("avg")]
    )
    return whole


def gathering(model: nn.Module) -> nn.Module:
    """Spread a model's parameters over all ranks, and gather each where it is read."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor

    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
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


def _step(case: Case, compiled: Compile) -> Any:
    """One training step; inputs differ from rank to rank."""
    model, _ = case.make()
    torch.manual_seed(case.seed + 1 + dist.get_rank())
    _, args = case.build(case.batch)
    gathering(model)
    torch.manual_seed(3)
    # Torch's key of a graph has the size of a whole parameter: a rank whose part has another size
    # would load what the other rank has compiled.
    with functorch_config.patch(enable_autograd_cache=False):
        results = compiled(model)(*args)
        leaves = [x for x in pytree.tree_leaves(results) if isinstance(x, Tensor)]
        losses = [x.square().mean() for x in leaves if x.requires_grad]
        torch.stack(losses).sum().backward()
    return leaves, [p.grad for p in model.parameters()]


#: As ``CASES`` of ``ranks.py``: the function, and a collective that its programs have to call.
MODELS: dict[str, tuple[Callable[..., Any], str]] = {
    f"model {case.name}": (partial(_step, case), "all_gather_into_tensor") for case in TRAINING
}

#: Those that draw other numbers than in eager.
RANDOM = tuple(f"model {case.name}" for case in TRAINING if case.random or case.training_random)
