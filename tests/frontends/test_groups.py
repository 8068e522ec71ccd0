"""Process groups that reach a graph as objects: torch 2.15's ``compile_on_one_rank``."""

from __future__ import annotations

import contextlib
import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import torch
import torch.compiler.config as compiler_config
import torch.distributed as dist
from torch.distributed import _functional_collectives as collectives

import wrapper_ir as wir
from tests import warm
from tests.distributed.parallelisms import gathering, line
from wrapper_ir.analysis.collectives import call_of
from wrapper_ir.frontends.inductor import OpByOpWarning, compat, one_rank, own_rank, statistics
from wrapper_ir.frontends.inductor.group_names import shared_name
from wrapper_ir.toolchain.cache import DiskCache

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from torch import Tensor

pytestmark = [
    pytest.mark.skipif(not dist.is_available(), reason="this torch has no process groups"),
    pytest.mark.skipif(
        not hasattr(compiler_config, "compile_on_one_rank"), reason="torch 2.15 brings the setting"
    ),
]


@contextlib.contextmanager
def _as_rank(rank: int) -> Iterator[None]:
    from torch.testing._internal.distributed.fake_pg import FakeStore

    torch._dynamo.reset()
    dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=4)
    try:
        with compiler_config.patch(compile_on_one_rank=True):  # type: ignore[attr-defined]
            yield
    finally:
        dist.destroy_process_group()


def _groups(program: wir.Program) -> list[object]:
    calls = [call_of(program, line) for line in program.body]
    return [call.group for call in calls if call is not None]


def _step(x: Tensor, mesh: Any) -> Tensor:
    rows = collectives.all_gather_tensor(x * 2, 0, (mesh, 1))
    return collectives.all_reduce(rows + 1, "sum", (mesh, 0))


#: The rows and columns of a mesh of 2 by 2.
MEMBERS = {"mesh_tp": [[0, 1], [2, 3]], "mesh_dp": [[0, 2], [1, 3]]}


def _mesh() -> Any:
    from torch.distributed.device_mesh import init_device_mesh

    return init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))


def _programs_of_a_mesh() -> list[wir.Program]:
    programs: list[wir.Program] = []
    for rank in range(4):
        with _as_rank(rank):
            mesh = _mesh()
            with wir.record() as found:
                torch.compile(_step, backend="wrapper_ir")(torch.ones(4, 6), mesh)
            programs += found
            for group, name in zip(("tp", "dp"), _groups(found[0]), strict=True):
                ranks = dist.get_process_group_ranks(mesh.get_group(group))
                assert ranks in MEMBERS[str(name)]
    return programs


def test_programs_of_a_mesh_are_the_same_on_all_ranks_and_are_compared() -> None:
    programs = _programs_of_a_mesh()
    assert len({str(program) for program in programs}) == 1
    report = wir.verify_ranks(programs, groups=MEMBERS)
    assert report.proved, report
    inputs = [(torch.full((4, 6), float(rank)),) for rank in range(4)]
    results = wir.interpreter.run_ranks(programs, inputs, groups=MEMBERS)
    rows = [torch.full((4, 6), 2.0 * rank) for rank in range(4)]
    for rank, (found,) in enumerate(results):
        mine, other = (
            torch.cat([rows[r], rows[r + 1]]) + 1 for r in (rank // 2 * 2, 2 - rank // 2 * 2)
        )
        torch.testing.assert_close(found, mine + other)

    # A rank that has nothing to wait for in its row leaves the other one waiting.
    fault = next(i for i, line in enumerate(programs[3].body) if call_of(programs[3], line))
    line = programs[3].body[fault]
    again = programs[3].replace(body=(*programs[3].body[:fault], line, *programs[3].body[fault:]))
    assert not wir.verify_ranks([*programs[:3], again], groups=MEMBERS).ok


def _compiled(
    rank: int, emitter: str, make: Any = _mesh, step: Callable[..., Any] = _step
) -> tuple[int, int]:
    """How many graphs a rank compiles, and how many it finds in the cache."""
    from torch._dynamo.utils import counters

    with _as_rank(rank):
        counters.clear()
        statistics.reset()
        compiled = torch.compile(step, backend="wrapper_ir", options={"emitter": emitter})
        # With a fake process group, collectives give back what they are given.
        compiled(torch.ones(4, 6), make())
        assert not statistics.fallbacks
        return statistics.programs, counters["aot_autograd"]["autograd_cache_hit"]


@pytest.mark.parametrize("emitter", ["python", "cpp", "fx"])
def test_other_ranks_load_what_one_has_compiled(
    emitter: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    assert _compiled(0, emitter) == (1, 0)
    assert [_compiled(rank, emitter) for rank in (3, 1)] == [(0, 1), (0, 1)]
    # The groups of a second mesh are others: its rows have another name.
    assert _compiled(1, emitter, lambda: (_mesh(), _mesh())[1]) == (1, 0)


#: Ways to say which group, in a function that is compiled.
WAYS: dict[str, Callable[[Any], Any]] = {
    "part": lambda mesh: mesh["tp"],
    "group of part": lambda mesh: mesh["tp"].get_group(),
    "group": lambda mesh: mesh.get_group("tp"),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_function_may_ask_a_mesh_for_parts_and_groups(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stock has no lowering for a part of a mesh."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))

    def step(x: Tensor, mesh: Any) -> Tensor:
        return collectives.all_reduce(x * 2, "sum", WAYS[way](mesh)) + 1

    assert _compiled(0, "python", step=step) == (1, 0)
    # Dynamo passes the group of a mesh's dimension by a name that differs from rank to rank.
    assert _compiled(3, "python", step=step) == ((1, 0) if way == "group" else (0, 1))
    with wir.record() as programs:
        _compiled(1, "python", step=step)
    assert [_groups(program) for program in programs] == [["mesh_tp"]]


#: A process of its own for each rank: torch keeps meshes of process groups that are gone.
TRAINED = """
import sys

import torch
import torch.compiler.config
import torch.distributed as dist
from torch._dynamo.utils import counters
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module
from torch.testing._internal.distributed.fake_pg import FakeStore

rank, dim, meshes = sys.argv[1:]
torch.compiler.config.compile_on_one_rank = True
dist.init_process_group("fake", store=FakeStore(), rank=int(rank), world_size=4)
for _ in range(int(meshes)):
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
model = torch.nn.Sequential(
    torch.nn.LayerNorm(8), torch.nn.Linear(8, 4), torch.nn.LayerNorm(2)
)
parallelize_module(model, mesh[dim], {"1": ColwiseParallel()})
torch.compile(model, backend="wrapper_ir")(torch.ones(3, 8)).sum().backward()
found = counters["inductor"]
print(found["fxgraph_cache_miss"], found["fxgraph_cache_hit"])
"""


def test_a_group_is_saved_for_the_backward(tmp_path: Path) -> None:
    """The backward of a norm before a split product asks the forward for its group."""

    def trained(rank: int, dim: str, meshes: int) -> str:
        changes = {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path)}
        done = warm.run(TRAINED, str(rank), dim, str(meshes), **changes)
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout.strip()

    assert trained(0, "tp", 1) == "2 0"
    assert trained(3, "tp", 1) == "0 2"
    # The same graphs, but for the group: in the backward it is a saved value.
    assert trained(0, "dp", 1) == "2 0"
    # The same mesh, but its groups have other names in a process that has made one before.
    assert trained(0, "tp", 2) == "2 0"


def test_a_group_made_anew_has_its_name_again() -> None:
    with _as_rank(3):
        first = _mesh().get_group("tp")
        assert shared_name(first) == "mesh_tp"
        assert shared_name(first) == "mesh_tp"
        assert shared_name(_mesh().get_group("tp")) == "mesh_tp.1"
        assert shared_name(dist.group.WORLD) == "0"
        named = dist.new_group([1, 3], group_desc="0")
        assert shared_name(named) == "0.1"
        assert compat.process_group("0.1") is named
    with _as_rank(1):
        again = _mesh().get_group("tp")
        assert shared_name(again) == "mesh_tp"
        assert compat.process_group("mesh_tp") is again


def test_who_finds_nothing_waits_for_whoever_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    key = "a graph that two processes compile"
    first, second, found = contextlib.ExitStack(), contextlib.ExitStack(), []
    assert one_rank._is_first(first, key)
    waiter = threading.Thread(target=lambda: found.append(one_rank._is_first(second, key)))
    waiter.start()
    waiter.join(0.2)
    assert not found
    first.close()
    waiter.join()
    assert found == [False]
    # It looks again, and compiles what is not there, without a lock: others do so as well.
    with contextlib.ExitStack() as third:
        assert one_rank._is_first(third, key)
        monkeypatch.setattr(one_rank, "_LIMIT", 0.05)
        assert not one_rank._is_first(second, key)


@pytest.mark.parametrize(
    "settings",
    [
        {"distributed_max_autotune_gemm": True},
        {"aten_distributed_optimizations.spmd_check": True},
        {"aten_distributed_optimizations.enable_overlap_scheduling": True},
    ],
    ids=lambda settings: next(iter(settings)),
)
def test_nobody_waits_for_a_rank_that_calls_collectives_while_it_compiles(
    settings: dict[str, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[None] = []

    def look() -> tuple[None, Any]:
        looks.append(None)
        return None, SimpleNamespace(cache_info=SimpleNamespace(cache_key="of a graph"))

    monkeypatch.setattr(one_rank, "_LIMIT", 0.05)
    try_load = one_rank._looking_again(look).__func__
    other, mine = contextlib.ExitStack(), contextlib.ExitStack()
    with other, mine:
        assert one_rank._is_first(other, "of a graph")
        token = one_rank._held.set(mine)
        try_load()
        assert len(looks) == 2  # before it has waited, and after
        with compat.inductor_config.patch(settings):
            try_load()
        one_rank._held.reset(token)
    assert len(looks) == 3


#: What code that torch traces below Dynamo may ask a mesh, and whether the answer is a rank.
ASKED: dict[str, tuple[Callable[[Any], int], bool]] = {
    "rank": (lambda _: dist.get_rank(), True),
    "rank in a group": (lambda mesh: dist.get_rank(mesh.get_group("tp")), True),
    "rank of a group": (lambda mesh: mesh.get_group("tp").rank(), True),
    "rank in a dimension": (lambda mesh: mesh.get_local_rank("tp"), True),
    "place": (lambda mesh: mesh.get_coordinate()[1], True),
    "place by place": (lambda mesh: max(mesh.get_coordinate()), True),
    "compared": (lambda mesh: mesh.get_coordinate() == (0, 0), True),
    "whether it is there": (lambda mesh: mesh.get_coordinate() is not None, False),
}


@pytest.mark.parametrize("asked", ASKED)
def test_a_graph_that_asks_for_its_rank_is_not_shared(
    asked: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "torch"))
    notes = DiskCache(tmp_path / "notes")
    monkeypatch.setattr(own_rank, "default_cache", lambda: notes)
    ask, is_rank = ASKED[asked]
    meshes: list[Any] = []

    def make() -> Any:
        meshes.append(_mesh())
        return meshes[-1]

    with torch.library._scoped_library("asking", "DEF") as library:
        library.define("scaled(Tensor x) -> Tensor")
        library.impl("scaled", lambda x: x * ask(meshes[-1]), "CompositeImplicitAutograd")

        def step(x: Tensor, _: Any) -> Tensor:
            found: Tensor = torch.ops.asking.scaled(x.sin())
            return found

        found = [_compiled(rank, "python", make, step) for rank in (0, 3, 0)]
    assert found == ([(1, 0), (1, 0), (1, 0)] if is_rank else [(1, 0), (0, 1), (0, 1)])


def test_a_graph_that_is_compiled_during_another_leaves_torch_as_it_was() -> None:
    from torch.distributed.device_mesh import DeviceMesh

    def replaced() -> tuple[object, object]:
        return vars(DeviceMesh).get("_coordinate_on_dim"), vars(dist.ProcessGroup)["rank"]

    before = replaced()
    with compat.asked_for_rank(lambda _: None):
        outer = replaced()
        with compat.asked_for_rank(lambda _: None):
            assert replaced() != outer
        assert replaced() == outer
    assert replaced() == before


def test_a_graph_that_holds_its_rank_is_compiled_by_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over gloo, torch chooses a part of what it has gathered by a number."""
    from torch.distributed.tensor import DTensor, Shard

    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "torch"))
    notes = DiskCache(tmp_path / "notes")
    monkeypatch.setattr(own_rank, "default_cache", lambda: notes)

    def step(x: Tensor, mesh: Any) -> Tensor:
        rows = DTensor.from_local(x * 2, mesh["tp"], [Shard(0)], run_check=False)
        turned: Tensor = rows.redistribute(placements=[Shard(1)]).to_local()
        return turned + 1

    # What the first one has compiled is not stored. From then on, keys hold the rank.
    found = [_compiled(rank, "python", step=step) for rank in (0, 3, 3, 0, 0)]
    assert found == [(1, 0), (1, 0), (0, 1), (1, 0), (0, 1)]


@pytest.mark.parametrize("is_shared", [False, True])
def test_parts_of_other_sizes_are_compiled_by_themselves(
    is_shared: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Torch looks for graphs by the whole size, which five rows over four ranks have in common."""
    from torch._dynamo.utils import counters
    from torch.distributed.tensor import DTensor, Shard

    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    found = []
    for rank, rows in enumerate((2, 2, 1)):
        with _as_rank(rank), compiler_config.patch(compile_on_one_rank=is_shared):  # type: ignore[attr-defined]
            counters.clear()
            given: dict[str, Any] = {"shape": torch.Size((5, 6)), "stride": (6, 1)}
            part = DTensor.from_local(
                torch.ones(rows, 6), line(), [Shard(0)], run_check=False, **given
            )
            compiled = torch.compile(lambda x: x.to_local() * 2, backend="wrapper_ir")
            assert compiled(part).shape == (rows, 6)
            found.append(counters["aot_autograd"]["autograd_cache_hit"])
    assert found == [0, 1, 0]


@pytest.mark.parametrize("emitter", ["python", "fx"])
def test_a_graph_may_return_a_placement(
    emitter: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where Dynamo breaks a graph in ``distribute_tensor``, the first part returns one."""
    from torch.distributed.tensor import Shard, distribute_tensor

    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    x = torch.arange(8.0).reshape(4, 2)

    def step(x: Tensor, mesh: Any) -> Tensor:
        spread = distribute_tensor(x * 2, mesh, [Shard(0)], src_data_rank=None)
        return spread.to_local() + 1

    for _ in ("compiled", "from the cache"):
        with _as_rank(1), compiler_config.patch(compile_on_one_rank=False):  # type: ignore[attr-defined]
            compiled = torch.compile(step, backend="wrapper_ir", options={"emitter": emitter})
            torch.testing.assert_close(compiled(x, line()), x[1:2] * 2 + 1)


def test_a_backward_may_hold_a_group_as_a_constant() -> None:
    """Stock copies it, and fails."""

    def step(x: Tensor) -> Tensor:
        return collectives.all_gather_tensor_autograd(x.sin(), 0, dist.group.WORLD).cos()

    x = torch.ones(4, 6, requires_grad=True)
    with _as_rank(0), wir.record() as programs:
        torch.compile(step, backend="wrapper_ir")(x).sum().backward()
    assert x.grad is not None
    assert [_groups(program) for program in programs] == [["0"], ["0"]]


def test_a_call_with_another_group_does_not_use_the_first() -> None:
    def total(x: Tensor, group: Any) -> Tensor:
        return collectives.all_gather_tensor(x * 2, 0, group) + 1

    x = torch.ones(3)
    with _as_rank(0):
        row, column = dist.new_group([0, 1]), dist.new_group([0, 2])
        compiled = torch.compile(total, backend="wrapper_ir")
        with wir.record() as programs:
            for group in (row, row, column, row, column):
                compiled(x, group)
        assert [_groups(program) for program in programs] == [["group"], ["group.1"]]
        assert compat.process_group("group") is row
        assert compat.process_group("group.1") is column


@pytest.mark.parametrize("is_shared", [False, True])
def test_a_model_over_another_mesh_of_the_same_shape_has_a_program_of_its_own(
    is_shared: bool,
) -> None:
    """Dynamo takes the meshes for equal; a model that is loaded anew may have made its own."""

    with _as_rank(0), compiler_config.patch(compile_on_one_rank=is_shared):  # type: ignore[attr-defined]
        one, other = _mesh(), _mesh()
        compiled = torch.compile(_step, backend="wrapper_ir")
        with wir.record() as programs:
            for mesh in (one, one, other, one, other):
                compiled(torch.ones(3), mesh)
        first, second = (_groups(program) for program in programs)
        assert len({*first, *second}) == 4


def test_a_call_with_other_groups_that_no_guard_sees_runs_op_by_op(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(compat, "guard_on_groups", lambda *_: None)
    x = torch.ones(3)
    with _as_rank(0):
        one, other = _mesh(), _mesh()
        compiled = torch.compile(_step, backend="wrapper_ir")
        compiled(x, one)
        with pytest.warns(OpByOpWarning, match="other process groups"):
            compiled(x, other)


def test_distributed_tensors_are_captured_as_what_this_rank_has_of_them() -> None:
    from torch.distributed.tensor._dtensor_spec import DTensorSpec
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )

    model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 6))
    with _as_rank(1):
        plan = {"0": ColwiseParallel(), "2": RowwiseParallel()}
        parallelize_module(model, _mesh()["tp"], plan)
        with compiler_config.patch(compile_on_one_rank=False):  # type: ignore[attr-defined]
            program = wir.capture(model.eval(), (torch.ones(4, 6),))
    assert sorted(program.layout(name).size for name in program.constants) == [
        (4,),
        (4, 6),
        (6,),
        (6, 4),
    ]
    assert len(_groups(program)) == 1
    # As before: what torch asks its users to do for that would change what Dynamo does.
    assert DTensorSpec not in torch.utils._pytree.SUPPORTED_NODES


class _Repeated(torch.nn.Module):
    """Reads its parameter several times."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(6, 6, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(3):
            x = torch.tanh(self.inner(x))
        return x


def test_what_is_gathered_once_is_saved_once_for_the_backward() -> None:
    """Each use has a wait of its own, whose result would be given up with the others' memory."""
    with _as_rank(0), compiler_config.patch(compile_on_one_rank=False), wir.record() as programs:  # type: ignore[attr-defined]
        compiled = torch.compile(gathering(_Repeated(), line()), backend="wrapper_ir")
        compiled(torch.ones(6, 6)).sum().backward()
    forward, backward = programs
    assert len(_groups(forward)) == 1
    given = [value.name for value in backward.inputs if getattr(value, "donated", False)]
    sizes = [backward.layout(name).size for name in given]
    assert sizes.count((6, 6)) == 3, given  # the weight, and what two of the products became
