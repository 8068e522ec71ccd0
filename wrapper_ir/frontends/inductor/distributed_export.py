"""What models of distributed tensors do that ``torch.export`` does not trace, in ways that it does.

**Embeddings that are split by rows**: each rank looks up the rows that it has, and the sum over all
ranks is the result. Torch keeps which rows a rank lacks beside the graph, in the placement of the
result, where a trace loses it.

**Distributed tensors that are plain attributes**: only registered ones are traced as what they are.
"""

from __future__ import annotations

import contextlib
import functools
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 - as everywhere
from torch.overrides import TorchFunctionMode

from wrapper_ir.frontends.inductor.distributed_tensors import is_distributed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


@contextlib.contextmanager
def made_traceable(model: nn.Module) -> Iterator[None]:
    """Have a model do these things so that they are traced."""
    attributes = [
        (module, name, value)
        for module in model.modules()
        for name, value in vars(module).items()
        if is_distributed(value)
    ]
    if not attributes and not any(map(is_distributed, (*model.parameters(), *model.buffers()))):
        yield
        return
    forward, own = model.forward, vars(model)
    given = own.get("forward")

    @functools.wraps(forward)
    def in_parts(*args: Any, **kwargs: Any) -> Any:
        with _InParts():  # here: what it does is traced by the modes that torch.export has entered
            return forward(*args, **kwargs)

    try:
        own["forward"] = in_parts
        for module, name, value in attributes:
            delattr(module, name)
            module.register_buffer(name, value, persistent=False)
        yield
    finally:
        for module, name, value in attributes:
            if name in module._buffers:
                delattr(module, name)
            setattr(module, name, value)
        del own["forward"]
        if given is not None:
            own["forward"] = given


class _InParts(TorchFunctionMode):
    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if func is F.embedding:
            found = _looked_up(*args, **(kwargs or {}))
            if found is not None:
                return found
        return func(*args, **(kwargs or {}))


def _looked_up(
    indices: Any, table: Any, padding_idx: Any = None, max_norm: Any = None, *_: Any, **__: Any
) -> Any:
    """Return the rows of a table at indices; None where torch can do it by itself."""
    del padding_idx  # of gradients
    if not is_distributed(table) or not is_distributed(indices) or max_norm is not None:
        return None
    mesh, spread = table.device_mesh, [*indices.placements]
    split = [dim for dim, each in enumerate(table.placements) if not each.is_replicate()]
    tensors = _home()
    if [table.placements[each] for each in split] != [tensors.Shard(0)]:
        return None
    (dim,) = split
    if indices.device_mesh != mesh or not spread[dim].is_replicate():
        return None
    rows, width = table.shape
    own, wanted = table.to_local(), indices.to_local()
    each = -(-rows // mesh.size(dim))  # the first ranks have as many, as torch.chunk makes them
    place = wanted - min(rows, each * mesh.get_local_rank(dim))
    elsewhere = (place < 0) | (place >= own.shape[0])
    found = F.embedding(place.masked_fill(elsewhere, 0), own)
    found = found.masked_fill(elsewhere.unsqueeze(-1), 0)
    spread[dim] = tensors.Partial()
    shape = torch.Size((*indices.shape, width))
    stride = torch.empty(shape, device="meta").stride()
    return tensors.DTensor.from_local(
        found, mesh, spread, run_check=False, shape=shape, stride=stride
    )


def _home() -> Any:
    """Return torch's package of distributed tensors, which not every build has."""
    from torch.distributed import tensor  # noqa: PLC0415

    return tensor
