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
from torch import Tensor
from torch.utils import _pytree as pytree

from tests.distributed.parallelisms import gathering, line
from tests.models.zoo import TRAINING

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.models.zoo import Case

    Compile = Callable[..., Callable[..., Any]]

__all__ = ["MODELS", "RANDOM"]


def _step(case: Case, compiled: Compile) -> Any:
    """Two training steps; inputs differ from rank to rank, and from step to step."""
    model, _ = case.make()
    torch.manual_seed(case.seed + 1 + dist.get_rank())
    batches = [case.build(case.batch)[1] for _ in range(2)]
    gathering(model, line())
    torch.manual_seed(3)
    # Torch's key of a graph has the size of a whole parameter: a rank whose part has another size
    # would load what the other rank has compiled.
    with functorch_config.patch(enable_autograd_cache=False):
        run, given = compiled(model), []
        for args in batches:
            results = run(*args)
            leaves = [x for x in pytree.tree_leaves(results) if isinstance(x, Tensor)]
            losses = [x.square().mean() for x in leaves if x.requires_grad]
            torch.stack(losses).sum().backward()
            given.append(leaves)
    return given, [p.grad for p in model.parameters()]


#: As ``CASES`` of ``ranks.py``: the function, and a collective that its programs have to call.
MODELS: dict[str, tuple[Callable[..., Any], str]] = {
    f"model {case.name}": (partial(_step, case), "all_gather_into_tensor") for case in TRAINING
}

#: Those that draw other numbers than in eager.
RANDOM = tuple(f"model {case.name}" for case in TRAINING if case.random or case.training_random)
