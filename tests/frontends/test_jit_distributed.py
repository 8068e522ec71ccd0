"""``wir.jit`` of models whose parameters are distributed tensors: what is seen, what is refused.

Values are compared over real ranks in ``tests/distributed``; here the other rank does not exist.
"""

from __future__ import annotations

import copy
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn

import wrapper_ir as wir
from wrapper_ir.frontends.inductor import EagerCallWarning, JitError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [
    pytest.mark.skipif(not dist.is_available(), reason="this torch has no process groups"),
    pytest.mark.filterwarnings("default"),  # torch warns of itself
]


@pytest.fixture(autouse=True)
def alone() -> Iterator[None]:
    """A group of two ranks, the other of which does not exist."""
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    yield
    dist.destroy_process_group()


class Counting(nn.Module):
    """Two layers, and a buffer that each call writes to."""

    calls: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(8, 16), nn.Linear(16, 8)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.calls.add_(1)
        found: Tensor = self.down(self.up(x).relu())
        return found


def mesh() -> Any:
    from torch.distributed.device_mesh import init_device_mesh

    return init_device_mesh("cpu", (2,))


def split(**styles: Any) -> Counting:
    """Return a model of which this rank has a part."""
    from torch.distributed.tensor import parallel

    torch.manual_seed(0)
    plan = {"up": parallel.ColwiseParallel(), "down": parallel.RowwiseParallel(**styles)}
    model = parallel.parallelize_module(Counting().eval(), mesh(), plan)
    assert isinstance(model, Counting)
    return model


def spread(tensor: Tensor) -> nn.Parameter:
    """Return a parameter of which this rank holds ``tensor``."""
    from torch.distributed.tensor import DTensor, Shard

    return nn.Parameter(DTensor.from_local(tensor, mesh(), [Shard(0)]))


def hold(parameter: Any, tensor: Tensor) -> None:
    parameter._local_tensor = tensor


def spread_anew(parameter: Any) -> None:
    parameter._spec = copy.copy(parameter._spec)


def held(parameter: Any) -> Tensor:
    tensor: Tensor = parameter.to_local()
    return tensor


#: Changes of a model, and whether a call needs another program then.
CHANGES: dict[str, tuple[Callable[[Counting], object], bool]] = {
    "nothing": (lambda _: None, False),
    "values": (lambda model: model.up.weight.mul_(2), False),
    "values of the part": (lambda model: held(model.up.weight).mul_(2), False),
    "the parameter": (lambda m: setattr(m.up, "weight", spread(torch.randn(8, 8))), True),
    "the tensor held": (lambda model: hold(model.up.weight, torch.randn(8, 8)), True),
    "how it is spread": (lambda model: spread_anew(model.up.weight), True),
    "a buffer": (lambda model: setattr(model, "calls", torch.ones(())), True),
}


@pytest.mark.parametrize("target", ["python", "cpp"])
def test_changes_are_seen(target: str) -> None:
    model, x, programs = split(), torch.randn(4, 8), 1
    f = wir.jit(model, target=target, training=False, fallback=False)
    with torch.no_grad():
        f(x)
        for change, (act, needs_another) in CHANGES.items():
            act(model)
            model.calls.zero_()
            found = f(x)
            assert model.calls == 1, change
            torch.testing.assert_close(found, model(x), rtol=0, atol=0, msg=change)
            programs += needs_another
            assert len(f.programs) == programs, change


@pytest.mark.parametrize("training", [True, False])
def test_gradients_are_not_recorded(training: bool) -> None:
    model, x = split(), torch.randn(4, 8)
    f = wir.jit(model, training=training)
    warned = pytest.warns(EagerCallWarning, match="with training=False")
    with warned if training else nullcontext():
        assert f(x).requires_grad is training
    with torch.no_grad():
        f(x)
    assert len(f.programs) == 1


def test_what_no_program_can_do_is_refused() -> None:
    from torch.distributed.fsdp import fully_shard

    x, heard, sharded = torch.randn(4, 8), split(), Counting().eval()
    heard.up.register_forward_hook(lambda *_: None)
    fully_shard(sharded, mesh=mesh())
    cases: list[tuple[Any, Any, str]] = [
        (split(use_local_output=False), x, "it returns a DTensor"),
        (split(), spread(x).detach(), "an argument is a DTensor"),
        (heard, x, "hooks are registered for a Linear"),
        (sharded, x, "hooks are registered for a FSDPCounting"),
    ]
    for model, given, problem in cases:
        f = wir.jit(model, training=False, fallback=False)
        with torch.no_grad(), pytest.raises(JitError, match=problem):
            f(given)
