"""Captured calls as people use them to decode: weights that change, results that are kept."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor, nn

import wrapper_ir as wir
from tests.gpu.test_programs import no_tuning_by_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["no_tuning_by_time"]

WIDTH = 256


class Adapted(nn.Module):
    """A layer whose product has an adapter of low rank beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.base = nn.RMSNorm(WIDTH), nn.Linear(WIDTH, WIDTH, bias=False)
        self.narrow, self.wide = (nn.Parameter(torch.randn(8, WIDTH) / 16) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(x)
        found: Tensor = x + self.base(y) + (y @ self.narrow.t()) @ self.wide
        return found


@pytest.fixture
def model() -> Iterator[nn.Module]:
    torch._dynamo.reset()
    torch.manual_seed(0)
    with torch.no_grad():
        yield nn.Sequential(Adapted(), Adapted()).to("cuda", torch.bfloat16)
    wir.release_kept_memory()


@pytest.fixture(params=["python", "cpp"])
def captured(request: pytest.FixtureRequest, model: nn.Module) -> Callable[[Tensor], Tensor]:
    options = {"cuda_graph": True, "emitter": request.param}
    return torch.compile(model, backend="wrapper_ir", options=options)


def token(*rows: int) -> Tensor:
    return torch.randn(*(rows or (1,)), WIDTH, device="cuda", dtype=torch.bfloat16)


def stock(model: nn.Module) -> Callable[[Tensor], Tensor]:
    """What Inductor makes of the model as it is now."""
    return torch.compile(copy.deepcopy(model))


def other_weights(model: nn.Module) -> dict[str, Tensor]:
    return {name: torch.randn_like(value) / 16 for name, value in model.state_dict().items()}


def _in_place(model: nn.Module, weights: dict[str, Tensor]) -> None:
    model.load_state_dict(weights)


def _as_new_tensors(model: nn.Module, weights: dict[str, Tensor]) -> None:
    model.load_state_dict({name: each.clone() for name, each in weights.items()}, assign=True)


def _adapters_alone(model: nn.Module, weights: dict[str, Tensor]) -> None:
    for name, parameter in model.named_parameters():
        if name.endswith(("narrow", "wide")):
            parameter.data = weights[name].clone()


def _a_layer(model: Any, weights: dict[str, Tensor]) -> None:
    layer = Adapted().to("cuda", torch.bfloat16)
    layer.load_state_dict({n[2:]: w for n, w in weights.items() if n.startswith("1.")})
    model[1] = layer


@pytest.mark.parametrize("change", [_in_place, _as_new_tensors, _adapters_alone, _a_layer])
def test_weights_change_between_calls(
    change: Callable[..., None], captured: Callable[[Tensor], Tensor], model: nn.Module
) -> None:
    """Two sets of weights take turns; each call has the results of those that are there."""
    sets = [other_weights(model), other_weights(model)]
    for turn in range(6):
        change(model, sets[turn % 2])
        wanted = stock(model)
        for _ in range(3):
            x = token()
            assert torch.equal(captured(x), wanted(x))
    assert any(status.replays for status in wir.cuda_graph_status())


def test_a_result_is_the_next_input(captured: Callable[[Tensor], Tensor], model: nn.Module) -> None:
    wanted = stock(model)
    for _ in range(6):
        x = token()
        torch.compiler.cudagraph_mark_step_begin()
        assert torch.equal(captured(captured(x)), wanted(wanted(x)))


def test_results_are_kept_over_steps(
    captured: Callable[[Tensor], Tensor], model: nn.Module
) -> None:
    wanted, kept = stock(model), []
    for _ in range(6):
        torch.compiler.cudagraph_mark_step_begin()
        x = token()
        kept.append((x, captured(x)))
    kept.pop(3)[1].zero_()  # a caller may write to what it was given
    assert all(torch.equal(found, wanted(x)) for x, found in kept)


@pytest.mark.parametrize("emitter", ["python", "cpp"])
def test_graphs_of_several_lengths_share_a_memory_pool(model: nn.Module, emitter: str) -> None:
    rows = torch.export.Dim("rows", min=1, max=1 << 16)
    program = wir.capture(model, (token(8),), dynamic_shapes=({0: rows},))
    function: Any = wir.compile(program, emitter, cuda_graph=True)
    longest = 1 << 15
    reserved = []
    for length in (longest, longest - 64, longest - 128, longest - 192):
        x = token(length)
        for _ in range(3):
            function(x)
        del x
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        reserved.append(torch.cuda.memory_reserved())
    first, *_, last = reserved
    assert function.cuda_graphs.status.graphs == 4
    # A graph holds its own copy of an input that moves, and no more.
    assert last - first < 3.5 * longest * WIDTH * 2
