"""Graphs that are made up: chains of point-wise ops, views, reductions and writes, with aliases."""

from __future__ import annotations

from typing import Any

import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.frontends_aten.support import agrees

Step = tuple[str, int, int]

POINTWISE = {
    "relu": torch.relu,
    "scaled": lambda x: x * 1.5,
    "plus": lambda x: x + 2,
    "copy": torch.clone,
    "dense": lambda x: x.contiguous(),
    "same": lambda x: x.to(torch.float32),
}

VIEWS = {
    "turned": lambda x: x.t(),
    "flat": lambda x: x.reshape(-1, x.shape[0]),
    "rows": lambda x: x[1:] if x.shape[0] > 1 else x,
    "columns": lambda x: x[:, ::2],
    "wide": lambda x: x[:1].expand(3, x.shape[1]),
    "split": lambda x: x.chunk(2, 1)[0],
    "apart": lambda x: x.unsqueeze(1).squeeze(1),
}

REDUCTIONS = {
    "sum": lambda x: x.sum(0, keepdim=True),
    "max": lambda x: x.max(1, keepdim=True).values,
    "mean": lambda x: x.mean(1, keepdim=True),
}

WRITES = {
    "added": lambda x: x.add_(1),
    "doubled": lambda x: x.mul_(2),
    "zeroed": lambda x: x[:1].zero_(),
    "clamped": lambda x: x.clamp_(-1, 1),
}

OF_ONE = {**POINTWISE, **VIEWS, **REDUCTIONS, **WRITES}
OF_TWO = {
    "sum of two": lambda x, y: x + y.sum(),
    "product": lambda x, y: x @ y.t() if x.shape[1] == y.shape[1] else x,
    "joined": lambda x, y: torch.cat([x, y]) if x.shape[1] == y.shape[1] else y,
    "into": lambda x, y: x.copy_(y.sum()),
}


def overlaps(x: Tensor) -> bool:
    """Whether elements share memory, so that what is written depends on the order."""
    pairs = zip(x.stride(), x.shape, strict=True)
    return any(stride == 0 and size > 1 for stride, size in pairs)


def follow(steps: list[Step], x: Tensor, y: Tensor) -> Any:
    values = [x, y]
    for name, first, second in steps:
        a, b = values[first % len(values)], values[second % len(values)]
        if name in (*WRITES, "into") and overlaps(a):
            a = a.clone()
        values.append(OF_ONE[name](a) if name in OF_ONE else OF_TWO[name](a, b))
    return values[2:][-4:]


#: A few values, and mostly the last ones, so that chains are long and storage is shared.
places = st.integers(-4, 3)
steps = st.lists(
    st.tuples(st.sampled_from([*OF_ONE, *OF_TWO]), places, places), min_size=2, max_size=12
)


@settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=40)
@given(steps)
def test_a_made_up_graph_does_what_eager_does(steps: list[Step]) -> None:
    x, y = torch.linspace(-2, 2, 12).view(3, 4), torch.linspace(1, 3, 8).view(2, 4)
    agrees(lambda x, y: follow(steps, x, y), (x, y), decomposed=False)
