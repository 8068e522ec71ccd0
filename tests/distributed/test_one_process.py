"""The cases of ``ranks.py``, compiled by one rank alone: programs are what their graphs say."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest
import torch
import torch.distributed as dist
from torch.distributed import _functional_collectives as collectives

import wrapper_ir as wir
from tests.distributed import ranks
from tests.release import TORCH
from wrapper_ir.analysis.collectives import begins_work
from wrapper_ir.frontends.inductor import statistics
from wrapper_ir.frontends.inductor.compat import inductor_config

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from torch import Tensor

pytestmark = [
    pytest.mark.skipif(not dist.is_available(), reason="this torch has no process groups"),
    pytest.mark.skipif(TORCH < (2, 15), reason="it brought messages and meshes in graphs"),
    pytest.mark.filterwarnings("default"),  # torch warns of itself
]

#: One that needs another rank, for which torch's reducer waits; and those that are captured or
#: exported, not compiled, so that no option has them compared with their graphs.
_ELSEWHERE = ("ddp", "exported", "exported split", "source", "captured", "captured split")
_ELSEWHERE += ("jitted split", "looked up")


@pytest.fixture(autouse=True)
def alone() -> Iterator[None]:
    """A group of two ranks, the other of which does not exist."""
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    yield
    dist.destroy_process_group()
    torch._dynamo.reset()


def received_into_an_argument(x: Tensor, y: Tensor) -> Tensor:
    dist.irecv(y, 1).wait()
    return y + x


def received_in_a_batch(x: Tensor, y: Tensor) -> Tensor:
    messages = [dist.P2POp(dist.isend, x * 2, 1), dist.P2POp(dist.irecv, y, 1)]
    for work in dist.batch_isend_irecv(messages):
        work.wait()
    return y + 1


@pytest.mark.parametrize("function", [received_into_an_argument, received_in_a_batch])
def test_receiving_may_write_to_an_argument(function: Callable[..., Tensor]) -> None:
    statistics.reset()
    compiled = torch.compile(function, backend="wrapper_ir", options={"validate": "error"})
    with torch._dynamo.config.patch(enable_p2p_compilation=True), wir.record() as programs:
        compiled(torch.ones(4), torch.zeros(4))
    assert any(map(begins_work, programs[0].body))
    assert not statistics.fallbacks


@pytest.mark.parametrize("case", [case for case in ranks.CASES if case not in _ELSEWHERE])
def test_programs_are_what_their_graphs_say(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    statistics.reset()
    compiled = partial(torch.compile, backend="wrapper_ir", options={"validate": "error"})
    with wir.record() as programs:
        found = ranks.tried(ranks.CASES[case][0], compiled)
    assert not isinstance(found, str), found
    assert programs
    assert not statistics.fallbacks


@pytest.mark.parametrize("is_turned", [False, True])
def test_products_that_communicate(is_turned: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Inductor gives them an argument in an order of strides, which is a copy only if it has to."""
    from torch.distributed import _symmetric_memory as symmetric

    def products(x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        gathered = collectives.all_gather_tensor(x, 0, "0") @ weight
        return gathered, collectives.reduce_scatter_tensor(x @ weight, "sum", 0, "0")

    x, weight = torch.randn(32, 64), torch.randn(64, 16)
    x = x.t().contiguous().t() if is_turned else x
    monkeypatch.setattr(symmetric, "is_symm_mem_enabled_for_group", lambda _: True)
    with (
        torch.library._scoped_library("symm_mem", "IMPL") as library,
        inductor_config.patch({"_micro_pipeline_tp": True}),
        wir.record() as programs,
    ):
        # Without GPUs, as if both ranks had the same.
        library.impl(
            "fused_all_gather_matmul",
            lambda a, bs, *_, **__: (None, [torch.cat([a, a]) @ b for b in bs]),
            "CPU",
        )
        library.impl("fused_matmul_reduce_scatter", lambda a, b, *_: (a @ b)[:16] * 2, "CPU")
        run = torch.compile(products, backend="wrapper_ir", options={"validate": "error"})
        gathered, scattered = run(x, weight)
    torch.testing.assert_close(gathered, torch.cat([x, x]) @ weight)
    torch.testing.assert_close(scattered, (x @ weight)[:16] * 2)
    (program,) = programs
    assert "symm_mem::fused_all_gather_matmul" in str(program)
    assert "symm_mem::fused_matmul_reduce_scatter" in str(program)
