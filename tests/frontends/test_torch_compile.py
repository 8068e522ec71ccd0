"""What torch.compile takes besides a backend; arenas kept between the calls of what it makes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from torch import Tensor, nn

import wrapper_ir as wir
from tests import warm
from tests.release import TORCH
from wrapper_ir.frontends.inductor import install

if TYPE_CHECKING:
    from collections.abc import Iterator

X = torch.linspace(-1, 1, 32).reshape(4, 8)


class Block(nn.Module):
    def __init__(self, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.linear = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.linear(x)) + x


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def test_stances() -> None:
    """Of the context, not of the function: eager, no new compilation, or another backend."""
    function = torch.compile(lambda x: x.sin() + 11, backend="wrapper_ir")
    with wir.record() as programs:
        with torch.compiler.set_stance("force_eager"):
            function(X)
        assert not programs
        function(X)
        with torch.compiler.set_stance("fail_on_recompile"):
            function(X)
            with pytest.raises(RuntimeError, match="recompile"):
                function(X.double())
        assert len(programs) == 1
        with torch.compiler.set_stance("default", force_backend="wrapper_ir"):
            torch.compile(lambda x: x.sin() + 12, backend="eager")(X)
        assert len(programs) == 2


def test_a_whole_graph_of_any_size_is_one_program() -> None:
    block = Block(0)
    with wir.record() as programs, torch.no_grad():
        compiled = torch.compile(block, backend="wrapper_ir", fullgraph=True, dynamic=True)
        for rows in (2, 3, 4):
            torch.testing.assert_close(compiled(X[:rows]), block(X[:rows]))
    assert len(programs) == 1


def test_a_step_begins_where_no_graph_is_captured() -> None:
    block = Block(0)
    with wir.record() as programs, torch.no_grad():
        compiled = torch.compile(block, backend="wrapper_ir", mode="reduce-overhead")
        for _ in range(3):
            torch.compiler.cudagraph_mark_step_begin()
            torch.testing.assert_close(compiled(X), block(X))
    assert len(programs) == 1


def test_blocks_that_are_compiled_each_share_a_program() -> None:
    blocks = [Block(seed) for seed in range(3)]
    with wir.record() as programs, torch.no_grad():
        wanted = ours = X
        for block in blocks:
            wanted = block(wanted)
        for block in blocks:
            block.compile(backend="wrapper_ir")
            ours = block(ours)
    torch.testing.assert_close(ours, wanted)
    assert len(programs) == 1


def test_compiled_autograd() -> None:
    """One graph of all backwards, which Dynamo traces where they are first run."""
    block = Block(1)
    block(X).sum().backward()
    wanted = [each.grad for each in block.parameters()]
    block.zero_grad()

    def step(x: Tensor) -> None:
        block(x).sum().backward()

    with (
        wir.record() as programs,
        install(),
        torch._dynamo.config.patch(compiled_autograd=True),
    ):
        torch.compile(step)(X)
    assert len(programs) >= 2
    for each, grad in zip(block.parameters(), wanted, strict=True):
        torch.testing.assert_close(each.grad, grad)


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
    wir.release_kept_memory()
    with torch.no_grad():
        first = kept(torch.ones(4, 8))
        before = first.clone()
        kept(torch.zeros(4, 8))
    assert torch.equal(first, before)
    assert wir.release_kept_memory() >= 4 * 16 * 4


THREADS = """
import threading

import torch

started = threading.Barrier(4)


def compile_and_call(scale):
    started.wait()
    backend = "wrapper_ir" if scale else "inductor"
    function = torch.compile(lambda x: x.sin() * scale, backend=backend)
    print(function(torch.zeros(2)).tolist())


threads = [threading.Thread(target=compile_and_call, args=(each,)) for each in (0, 1, 2, 3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


@pytest.mark.skipif(TORCH < (2, 12), reason="stock Inductor's own threads fail")
def test_threads_may_compile_for_the_first_time_at_once() -> None:
    """Each of them finds our entry point and has torch register it."""
    done = warm.run(THREADS, taken_down=True)
    assert done.stdout.splitlines() == ["[0.0, 0.0]"] * 4, done.stderr
