"""Arenas kept between the calls of what torch.compile makes."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import wrapper_ir as wir
from wrapper_ir.errors import OptionValueError
from wrapper_ir.frontends.inductor import Settings

pytestmark = pytest.mark.filterwarnings(
    # Stock Inductor forks compile workers from a process that has threads.
    "ignore:This process .* is multi-threaded:DeprecationWarning"
)


def test_training_and_inference_keep_arenas() -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 16), nn.GELU())
    kept = torch.compile(net, backend="wrapper_ir", options={"arena": "kept"})

    def gradients(model: nn.Module, x: Tensor) -> list[Tensor]:
        net.zero_grad()
        model(x).square().sum().backward()
        return [p.grad for p in net.parameters() if p.grad is not None]

    for _ in range(3):
        x = torch.randn(4, 8)
        for ours, theirs in zip(gradients(kept, x), gradients(net, x), strict=True):
            torch.testing.assert_close(ours, theirs)
        with torch.no_grad():
            torch.testing.assert_close(kept(x), net(x))
    wir.release()
    with torch.no_grad():
        first = kept(torch.ones(4, 8))
        before = first.clone()
        kept(torch.zeros(4, 8))
    assert torch.equal(first, before)
    assert wir.release() >= 4 * 16 * 4


def test_options_that_do_not_go_together() -> None:
    assert Settings.from_options({"arena": "kept", "memory": "pool"}).arena == "kept"
    with pytest.raises(OptionValueError, match=r"'arena' cannot be 'kept'.*'none'"):
        Settings.from_options({"arena": "kept", "memory": "none"})
    with pytest.raises(OptionValueError, match="'out' cannot be True"):
        Settings.from_options({"out": True})
