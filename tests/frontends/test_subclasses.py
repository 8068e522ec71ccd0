"""Tensor subclasses: their tensors go into programs, what else they hold goes past them."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch._inductor.utils import fresh_cache
from torch.testing._internal.two_tensor import TwoTensor

import wrapper_ir as wir
from wrapper_ir.frontends.inductor import statistics
from wrapper_ir.frontends.inductor.errors import CaptureError
from wrapper_ir.runtime.calls import pass_by

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [
    # Stock Inductor forks compile workers from a process that has threads.
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*all_gather_tensor:FutureWarning"),
]

EMITTERS = ("python", "fx", "cpp")


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    torch._dynamo.reset()
    statistics.reset()
    with fresh_cache():
        yield


def ragged(*lengths: int, width: int, requires_grad: bool = False) -> Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows = [torch.arange(n * width).reshape(n, width) / 7 - 1 for n in lengths]
        made: Tensor = torch.nested.nested_tensor(
            rows, layout=torch.jagged, requires_grad=requires_grad
        )
    return made


def compiled(function: Callable[..., Any], emitter: str) -> Callable[..., Any]:
    return torch.compile(function, backend="wrapper_ir", options={"emitter": emitter})


@pytest.mark.parametrize("emitter", EMITTERS)
def test_ragged_sizes_go_past_the_program(emitter: str) -> None:
    def turned(x: Tensor) -> Tensor:
        return x.transpose(1, 2)

    run = compiled(turned, emitter)
    for lengths in ((3, 5), (4, 1, 2)):
        x = ragged(*lengths, width=4)
        found = run(x)
        assert found.shape == turned(x).shape  # the very size, which has no value
        assert torch.equal(found.values(), turned(x).values())
    assert statistics.programs >= 1
    assert not statistics.fallbacks


@pytest.mark.parametrize("emitter", ["python", "fx"])
def test_nested_tensors_train(emitter: str) -> None:
    torch.manual_seed(0)
    linear = nn.Linear(4, 3)

    def model(x: Tensor) -> Tensor:
        return linear(x).relu()

    grads = []
    for run in (torch.compile(model), compiled(model, emitter)):
        torch._dynamo.reset()
        x = ragged(2, 3, width=4, requires_grad=True)
        run(x).values().square().sum().backward()
        assert x.grad is not None
        grads.append(x.grad.values())
    assert torch.equal(*grads)
    assert statistics.programs == 2


@pytest.mark.usefixtures("own_group")
@pytest.mark.parametrize("emitter", EMITTERS)
def test_the_mesh_of_a_distributed_tensor_goes_past_the_program(emitter: str) -> None:
    from torch.distributed.tensor import DTensor, Replicate, Shard, init_device_mesh

    mesh = init_device_mesh("cpu", (1,))
    x = DTensor.from_local(torch.eye(4) - 2, mesh, [Shard(0)])

    def product(x: Tensor) -> Any:
        return (x @ x.t()).redistribute(placements=[Replicate()])  # type: ignore[attr-defined]

    found, wanted = compiled(product, emitter)(x), product(x)
    assert found.device_mesh == mesh
    assert found.placements == wanted.placements
    assert torch.equal(found.to_local(), wanted.to_local())
    assert statistics.programs == 1


@pytest.mark.usefixtures("own_group")
@pytest.mark.parametrize("emitter", EMITTERS)
def test_collectives(emitter: str) -> None:
    from torch.distributed import _functional_collectives as collectives

    group = dist.group.WORLD

    def gathered(x: Tensor) -> tuple[Tensor, Tensor]:
        total = collectives.all_reduce(x @ x, "sum", group)
        return collectives.all_gather_tensor(total, 0, group), total

    x = torch.eye(3) * 5
    for found, wanted in zip(compiled(gathered, emitter)(x), gathered(x), strict=True):
        assert torch.equal(found, wanted)
    assert statistics.programs == 1


def test_two_tensors() -> None:
    x = TwoTensor(torch.arange(4.0), torch.arange(4.0) + 1)
    found = compiled(lambda x: x.flip(0), "python")(x)
    assert torch.equal(found.a, x.a.flip(0))
    assert torch.equal(found.b, x.b.flip(0))


def test_results_are_put_where_they_belong() -> None:
    given: list[Any] = ["first", 2, "mesh", 4]
    run = pass_by(
        lambda args: [sum(args), args.clear()], (0, 2), {0: 2, 2: 0}, {4: "last"}, {"last": "end"}
    )
    assert run(given) == ("mesh", 6, "first", None, "end")
    assert not given


def test_capture_takes_no_nested_tensors() -> None:
    with pytest.raises(CaptureError, match="the model cannot be captured"):
        wir.capture(lambda x: x.transpose(1, 2), (ragged(3, 5, width=4),))
