"""Guards on distributed tensors: compared once, and again where a specification is another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn

from wrapper_ir.frontends.inductor import compat

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [
    pytest.mark.skipif(not dist.is_available(), reason="this torch has no process groups"),
    pytest.mark.skipif(
        compat.make_spec_guard is None, reason="this torch guards specifications in another way"
    ),
    pytest.mark.usefixtures("fresh"),
]


@pytest.fixture
def mesh() -> Iterator[Any]:
    from torch.distributed.device_mesh import init_device_mesh

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        yield init_device_mesh("cpu", (1,))
    finally:
        dist.destroy_process_group()


@pytest.fixture
def compared(mesh: Any, monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What Dynamo has compared so far."""
    from torch.distributed.tensor._dtensor_spec import DTensorSpec

    found: list[object] = []
    stock = DTensorSpec._check_equals

    def compare(self: Any, *args: Any, **kwargs: Any) -> bool:
        found.append(self)
        return bool(stock(self, *args, **kwargs))

    monkeypatch.setattr(DTensorSpec, "_check_equals", compare)
    return found


class Scaled(nn.Module):
    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight)

    def forward(self, x: Tensor) -> Tensor:
        return x * self.weight + 1


def distributed(mesh: Any, placement: Any) -> Tensor:
    from torch.distributed.tensor import distribute_tensor

    made: Tensor = distribute_tensor(torch.arange(8.0).view(2, 4), mesh, [placement])
    return made


def warmed(mesh: Any, backend: str = "wrapper_ir") -> tuple[Any, Any, Any]:
    """A model, the same compiled and called often enough, and its argument."""
    from torch.distributed.tensor import Replicate

    model, x = Scaled(distributed(mesh, Replicate())), distributed(mesh, Replicate())
    run = torch.compile(model, backend=backend)
    for _ in range(4):
        assert run(x).placements == (Replicate(),)
    return model, run, x


def count(call: Callable[[], object], compared: list[object]) -> int:
    compared.clear()
    call()
    return len(compared)


@pytest.mark.parametrize("backend", ["wrapper_ir", "inductor"])
def test_a_weight_is_compared_until_it_is_known(
    backend: str, mesh: Any, compared: list[object]
) -> None:
    from torch.distributed.tensor import Replicate

    with torch.no_grad():
        _, run, x = warmed(mesh, backend)
        assert bool(count(lambda: run(x), compared)) == (backend == "inductor")
        # An argument that is new in each call is compared in each.
        assert count(lambda: run(distributed(mesh, Replicate())), compared) > 0


def test_other_placements_compile_again(mesh: Any) -> None:
    from torch.distributed.tensor import Replicate, Shard

    with torch.no_grad():
        model, run, x = warmed(mesh)
        model.weight = nn.Parameter(distributed(mesh, Shard(0)))
        for _ in range(4):
            found = run(x)
            assert found.placements == model(x).placements == (Shard(0),)
            assert torch.equal(found.full_tensor(), model(x).full_tensor())
        model.weight = nn.Parameter(distributed(mesh, Replicate()))
        assert run(x).placements == (Replicate(),)


def test_a_specification_that_changes_is_compared_again(mesh: Any) -> None:
    from torch.distributed.tensor import Replicate, Shard

    with torch.no_grad():
        model, run, x = warmed(mesh)
        spec = model.weight._spec
        for placement in (Shard(0), Replicate()):
            spec.placements = (placement,)
            spec.shard_order = spec.compute_default_shard_order(spec.placements)
            for _ in range(4):
                assert run(x).placements == model(x).placements == (placement,)
            hash(spec)  # as whoever looks it up does
            assert run(x).placements == (placement,)
