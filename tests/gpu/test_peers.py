"""Memory that peers address, of one rank that is alone over NCCL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed import _functional_collectives as collectives
from torch.distributed import _symmetric_memory as symmetric

import wrapper_ir as wir
from wrapper_ir.frontends.inductor.compat import inductor_config
from wrapper_ir.runtime import PeerMemory, UnknownToPeersError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.skipif(
    not (dist.is_available() and dist.is_nccl_available()), reason="this torch has no NCCL"
)

EMITTERS = ("python", "cpp", "fx")


@pytest.fixture(autouse=True)
def alone() -> Iterator[None]:
    """A group of this process."""
    dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
    torch._dynamo.reset()
    yield
    wir.release_kept_memory()
    dist.destroy_process_group()
    torch._dynamo.reset()


class Reduced(nn.Module):
    """Two sums in symmetric memory, of which Inductor makes buffers of their own."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.weight = nn.Parameter(torch.randn(16, 16), requires_grad=False)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        reduce = torch.ops.symm_mem.one_shot_all_reduce
        y = reduce((x @ self.weight).relu(), "sum", "0")
        z = reduce(torch.cat([y, y + 1]).sin(), "sum", "0")
        return y, z * 2


def compiled(emitter: str, **options: Any) -> Callable[[Tensor], Any]:
    options |= {"build": "wait"} if emitter == "cpp" else {}
    model, options = Reduced().cuda(), {"emitter": emitter, **options}
    return torch.compile(model, backend="wrapper_ir", options=options, dynamic=False)


def wanted(x: Tensor) -> tuple[Tensor, Tensor]:
    model = Reduced().cuda()
    y = (x @ model.weight).relu()
    return y, torch.cat([y, y + 1]).sin() * 2


@pytest.mark.parametrize("emitter", EMITTERS)
def test_results_are_those_of_stock(emitter: str, monkeypatch: pytest.MonkeyPatch) -> None:
    met: list[int] = []
    empty = symmetric.empty
    monkeypatch.setattr(symmetric, "empty", lambda n, **how: met.append(n) or empty(n, **how))
    stock = torch.compile(Reduced().cuda(), dynamic=False)
    with wir.record() as programs:
        run = compiled(emitter)
        sizes = (4, 4, 8, 4, 8)
        for rows in sizes:
            x = torch.randn(rows, 16, device="cuda")
            for ours, theirs, eager in zip(run(x), stock(x), wanted(x), strict=True):
                assert torch.equal(ours, theirs)
                torch.testing.assert_close(ours, eager)
    assert [str(program).count("= allocate symmetric") for program in programs] == [2, 2]
    assert len(met) == (0 if emitter == "cpp" else 4)
    bytes_kept = 4 * 16 * (4 + 8 + 8 + 16)
    assert wir.release_kept_memory() >= bytes_kept


@pytest.mark.parametrize("emitter", ["python", "cpp"])
def test_calls_are_captured(emitter: str) -> None:
    before, run = wir.cuda_graph_status(), compiled(emitter, cuda_graph=True)
    for _ in range(5):
        x = torch.randn(4, 16, device="cuda")
        for ours, eager in zip(run(x), wanted(x), strict=True):
            torch.testing.assert_close(ours, eager)
    status = wir.cuda_graph_status()
    for each in before:
        status.remove(each)
    assert [(each.captures, each.replays) for each in status] == [(1, 4)]


def test_calls_of_jit_are_captured() -> None:
    run = wir.jit(Reduced().cuda(), target="cpp", cuda_graph=True, fallback=False)
    with torch.no_grad():
        for _ in range(5):
            x = torch.randn(4, 16, device="cuda")
            for ours, eager in zip(run(x), wanted(x), strict=True):
                torch.testing.assert_close(ours, eager)


@pytest.mark.parametrize("emitter", EMITTERS)
def test_users_capture_calls_that_have_been_made_before(emitter: str) -> None:
    program = wir.capture(Reduced().cuda(), (torch.randn(4, 16, device="cuda"),))
    run = wir.compile(program, emitter)
    x = torch.randn(4, 16, device="cuda")
    graphs = []
    run(x)
    wir.release_kept_memory()
    graph = torch.cuda.CUDAGraph()
    with pytest.raises(Exception, match="cannot meet"), torch.cuda.graph(graph):
        run(x)
    run(x)
    for _ in range(2):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            results = run(x)
        graphs.append((graph, results))
    for _ in range(2):
        x.copy_(torch.randn(4, 16, device="cuda"))
        for graph, results in graphs:
            graph.replay()
            for ours, eager in zip(results, wanted(x), strict=True):
                torch.testing.assert_close(ours, eager)
        for ours, eager in zip(run(x), wanted(x), strict=True):
            torch.testing.assert_close(ours, eager)


@pytest.mark.parametrize("graphs", [False, True])
def test_a_library_in_torchs_loader(tmp_path: Path, graphs: bool) -> None:
    program = wir.capture(Reduced().cuda(), (torch.randn(4, 16, device="cuda"),))
    file = wir.export(program, tmp_path / "model.so", cuda_graph=graphs)
    runner = torch._C._aoti.AOTIModelContainerRunnerCuda(str(file), 1, "cuda", "")
    for _ in range(4):
        x = torch.randn(4, 16, device="cuda")
        for ours, eager in zip(runner.run([x]), wanted(x), strict=True):
            torch.testing.assert_close(ours, eager)
    del runner


def test_memory_is_kept_for_one_stream() -> None:
    memory = PeerMemory("cuda")
    first = memory.empty_strided((4,), (1,), torch.float32)
    second = memory.empty_strided((4,), (1,), torch.float32)
    places = {first.data_ptr(), second.data_ptr()}
    assert len(places) == 2
    place = first.data_ptr()
    view = first[1:]
    del first
    assert memory.empty_strided((4,), (1,), torch.float32).data_ptr() not in places
    del view
    assert memory.empty_strided((4,), (1,), torch.float32).data_ptr() == place
    with torch.cuda.stream(torch.cuda.Stream()):
        assert memory.empty_strided((4,), (1,), torch.float32).data_ptr() != place
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = memory.empty_strided((4,), (1,), torch.float32)
        place = captured.data_ptr()
        del captured
    assert memory.empty_strided((4,), (1,), torch.float32).data_ptr() != place
    with pytest.raises(UnknownToPeersError), torch.cuda.graph(torch.cuda.CUDAGraph()):
        memory.empty_strided((1024,), (1,), torch.float32)


@pytest.mark.parametrize("emitter", EMITTERS)
def test_ops_that_copy_ordinary_memory(emitter: str) -> None:
    """Inductor gives them no other; slices of pools are what they find there."""

    def gather(x: Tensor) -> tuple[Tensor, ...]:
        found = []
        for n in range(3):
            y = torch.ops.symm_mem._low_contention_all_gather((x + n).sin(), "0")
            found.append(torch.ops._c10d_functional.wait_tensor(y))
        return tuple(found)

    options = {"emitter": emitter, "strategy": "pool"}
    options |= {"build": "wait"} if emitter == "cpp" else {}
    run = torch.compile(gather, backend="wrapper_ir", options=options, dynamic=False)
    for _ in range(3):
        x = torch.randn(4, 16, device="cuda")
        for n, ours in enumerate(run(x)):
            torch.testing.assert_close(ours, (x + n).sin())


def eager_and_compiled(emitter: str, function: Callable[[Tensor], Tensor]) -> str:
    """Compare three calls with eager ones, and return the program."""
    options: dict[str, Any] = {"emitter": emitter}
    options |= {"build": "wait"} if emitter == "cpp" else {}
    run = torch.compile(function, backend="wrapper_ir", options=options, dynamic=False)
    with wir.record() as programs:
        for _ in range(3):
            x = torch.randn(4, 16, device="cuda")
            torch.testing.assert_close(run(x), x.relu() + 1)
    (program,) = programs
    return str(program)


@pytest.mark.parametrize("emitter", EMITTERS)
def test_inductor_chooses_such_an_op_by_itself(emitter: str) -> None:
    with inductor_config.patch({"_collective.auto_select": True}):
        text = eager_and_compiled(
            emitter, lambda x: collectives.all_reduce(x.relu(), "sum", "0") + 1
        )
    assert "symm_mem::one_shot_all_reduce" in text
    assert "allocate symmetric" in text


@pytest.mark.parametrize("emitter", EMITTERS)
def test_ops_of_others_ask_for_such_memory(emitter: str) -> None:
    with torch.library._scoped_library("wrapper_ir_peers", "FRAGMENT") as library:
        library.define("summed(Tensor x, str group_name) -> Tensor")

        def summed(x: Tensor, group_name: str) -> Tensor:
            assert symmetric.rendezvous(x, group_name) is not None
            return x.clone()

        library.impl("summed", summed, "CUDA")
        library.register_symm_mem_args("summed", ["x"])
        op = torch.ops.wrapper_ir_peers.summed
        torch.library.register_fake(op.default, lambda x, _: torch.empty_like(x), lib=library)
        text = eager_and_compiled(emitter, lambda x: op(x.relu(), "0") + 1)
    assert "allocate symmetric" in text


@pytest.mark.parametrize("emitter", EMITTERS)
def test_products_that_communicate(emitter: str) -> None:
    """Inductor fuses products with gathering and scattering; these ops have memory of their own."""

    def products(x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        gathered = collectives.all_gather_tensor(x, 0, "0") @ weight
        scattered = collectives.reduce_scatter_tensor(x @ weight, "sum", 0, "0")
        return gathered, scattered

    options: dict[str, Any] = {"emitter": emitter}
    options |= {"build": "wait"} if emitter == "cpp" else {}
    weight = torch.randn(256, 128, device="cuda", dtype=torch.bfloat16)
    with inductor_config.patch({"_micro_pipeline_tp": True}), wir.record() as programs:
        run = torch.compile(products, backend="wrapper_ir", options=options, dynamic=False)
        stock = torch.compile(products, dynamic=False)
        for _ in range(3):
            x = torch.randn(512, 256, device="cuda", dtype=torch.bfloat16)
            for ours, theirs in zip(run(x, weight), stock(x, weight), strict=True):
                assert torch.equal(ours, theirs)
    (program,) = programs
    assert "symm_mem::fused_all_gather_matmul" in str(program)
    assert "symm_mem::fused_matmul_reduce_scatter" in str(program)
