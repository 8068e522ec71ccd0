"""Random generators: what draws from them, seeds them and reads their states, as eager does."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import dropout
from torch.utils.checkpoint import checkpoint

import wrapper_ir as wir
from wrapper_ir.frontends.inductor import JitError, statistics
from wrapper_ir.frontends.inductor.errors import CaptureError

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [
    pytest.mark.usefixtures("fresh"),
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning"),
]

OWN = torch.Generator()


def of_its_own(x: Tensor) -> Tensor:
    return x + torch.rand(3, generator=OWN)


def of_torchs(x: Tensor) -> Tensor:
    return x + torch.rand(3, generator=torch.default_generator)


def new(x: Tensor) -> Tensor:
    return x + torch.rand(3, generator=torch.Generator())


def new_with_a_seed(x: Tensor) -> Tensor:
    made = torch.Generator()
    made.manual_seed(1)
    return x + torch.rand(3, generator=made)


def with_a_seed(x: Tensor) -> Tensor:
    OWN.manual_seed(0)
    return x + torch.rand(3, generator=OWN)


def seeding(x: Tensor) -> Tensor:
    torch.manual_seed(0)
    return x + torch.rand(3)


def reading_the_seed(x: Tensor) -> Tensor:
    return x + torch.initial_seed() % 7


def going_back(x: Tensor) -> Tensor:
    state = torch.get_rng_state()
    y = torch.rand(3)
    torch.set_rng_state(state)
    return x + y - torch.rand(3)


def forking(x: Tensor) -> Tensor:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        y = torch.rand(3)
    return x + y


def of_python(x: Tensor) -> Tensor:
    return x * random.random()


def of_numpy(x: Tensor) -> Tensor:
    return x * float(np.random.rand())


REFUSED = {
    new: "it uses a random generator that is in no module",
    new_with_a_seed: "it uses a random generator that is in no module",
    with_a_seed: "it sets the state of a random generator",
    seeding: r"it uses manual_seed\(\) of torch's random generator",
    reading_the_seed: r"it uses initial_seed\(\) of torch's random generator",
    going_back: r"it uses get_state\(\) of torch's random generator",
    forking: r"it uses get_state\(\) of torch's random generator",
    of_python: "it draws Python's random numbers",
    of_numpy: "it draws NumPy's random numbers",
}


def outcomes(function: Callable[[Tensor], Any], *, training: bool) -> list[Any]:
    """Results of three calls with a seed each, and the states afterwards."""
    found = list[Any]()
    for seed in (0, 3):
        torch.manual_seed(seed)
        OWN.manual_seed(seed)
        random.seed(seed)
        np.random.seed(seed)
        x = torch.ones(3, requires_grad=training)
        for _ in range(2):
            found += [function(x).detach(), torch.get_rng_state(), OWN.get_state()]
        found += [random.random(), float(np.random.rand())]
    return found


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("function", REFUSED)
def test_jit_refuses_what_no_program_repeats(
    function: Callable[[Tensor], Any], training: bool
) -> None:
    wanted = outcomes(function, training=training)
    with pytest.warns(wir.frontends.inductor.EagerCallWarning, match=REFUSED[function]):
        found = outcomes(wir.jit(function), training=training)
    torch.testing.assert_close(found, wanted, rtol=0, atol=0)
    with pytest.raises(JitError, match=REFUSED[function]):
        wir.jit(function, fallback=False)(torch.ones(3, requires_grad=training))


class Noisy(nn.Module):
    """A module with a generator."""

    def __init__(self) -> None:
        super().__init__()
        self.own = OWN

    def forward(self, x: Tensor) -> Tensor:
        return x + torch.rand(3, generator=self.own)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("function", [of_its_own, of_torchs, Noisy()])
def test_jit_draws_from_generators(function: Callable[[Tensor], Any], training: bool) -> None:
    run = wir.jit(function, fallback=False)
    wanted = outcomes(function, training=training)
    torch.testing.assert_close(outcomes(run, training=training), wanted, rtol=0, atol=0)


def test_jit_leaves_generators_as_they_were() -> None:
    OWN.manual_seed(5)
    before = OWN.get_state()
    run = wir.jit(lambda x: x + OWN.initial_seed(), fallback=False)
    assert run(torch.ones(3)).tolist() == [6, 6, 6]
    assert torch.equal(OWN.get_state(), before)


def test_jit_draws_the_same_again_for_a_checkpoint() -> None:
    """What sets states there is torch's, and has no say in the program."""

    def inner(x: Tensor) -> Tensor:
        return dropout(x, 0.5) * x.sin()

    run = wir.jit(lambda x: checkpoint(inner, x, use_reentrant=False), fallback=False)
    for _ in range(2):
        x = torch.ones(64, requires_grad=True)
        y = run(x)
        y.sum().backward()
        assert x.grad is not None
        assert 0 < y.count_nonzero() < 64
        assert torch.equal(y != 0, x.grad != 0)


@pytest.mark.parametrize("function", [seeding, reading_the_seed, going_back, forking])
def test_capture_refuses_what_no_program_repeats(function: Callable[[Tensor], Any]) -> None:
    torch.manual_seed(4)
    with pytest.raises(CaptureError, match=REFUSED[function]) as caught:
        wir.capture(function, (torch.ones(3),))
    assert "do that before you call it" in str(caught.value)
    assert torch.initial_seed() == 4


@pytest.mark.parametrize(
    ("emitter", "training"), [("python", False), ("python", True), ("cpp", True), ("fx", False)]
)
def test_compiled_functions(emitter: str, training: bool) -> None:
    """Dynamo breaks graphs for what sets states; first calls and second ones, seeds in between."""

    def function(x: Tensor) -> Tensor:
        y = seeding(x) + of_its_own(x) + of_torchs(x) + forking(x) + reading_the_seed(x)
        return y + dropout(x, 0.5) + torch.randn_like(x)

    options = {"emitter": emitter, "build": "wait"}
    with torch._inductor.config.patch(fallback_random=True):
        run = torch.compile(function, backend="wrapper_ir", options=options)
        wanted = outcomes(function, training=training)
        torch.testing.assert_close(outcomes(run, training=training), wanted)
    assert statistics.programs
    assert not statistics.fallbacks


def test_states_that_torch_keeps_while_it_traces_are_not_the_models() -> None:
    """Dynamo, which traces branches, keeps the state of the default generator meanwhile."""

    def choosing(x: Tensor) -> Tensor:
        found: Tensor = torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))
        return found

    x = torch.ones(3)
    (found,) = wir.compile(wir.capture(choosing, (x,)), "python")(x)
    assert torch.equal(found, x.sin())
