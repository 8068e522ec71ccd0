"""Straight calls of graphs that take tensor subclasses: what is taken apart, and what is not."""

from __future__ import annotations

from threading import get_ident
from typing import TYPE_CHECKING, Any

import pytest
import torch
import torch.distributed as dist
import torch.distributed.tensor as distributed
from torch import Tensor
from torch.testing._internal.two_tensor import TwoTensor

from tests.frontends.recorded_scenes import (
    SCENES,
    called_by_hand,
    check,
    checkpointed,
    compiled_autograd,
    gradients_of_odd_kinds,
    graph_of_a_gradient,
    hooks,
    hooks_of_saved_tensors,
    one_result_used,
    play,
    product,
    profiled,
    twice_backward,
    two_results,
    values,
    what_a_node_shows,
)
from tests.frontends.support import ours
from tests.release import TORCH
from wrapper_ir.aot import load
from wrapper_ir.frontends.inductor import overlaps, straight, straight_gradients
from wrapper_ir.frontends.inductor.straight_subclasses import taken_apart

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [
    pytest.mark.usefixtures("fresh"),
    pytest.mark.skipif(
        TORCH < (2, 13), reason="older releases put one more function around each graph"
    ),
]


@pytest.fixture(params=["C++", "Python"], autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Call graphs from C++, and from Python, as where the module is not compiled yet."""
    if request.param == "Python":
        for module in (straight, straight_gradients, overlaps):
            monkeypatch.setattr(module, "module_if_made", lambda: None)
    else:
        load.extension_module()
    return str(request.param)


def pair(*shape: int, seed: int = 0) -> TwoTensor:
    torch.manual_seed(seed)
    return TwoTensor(torch.randn(shape), torch.randn(shape))


def told(x: Any, y: Tensor) -> tuple[Tensor, Tensor]:
    return x.sin().a + y, (x * 2).b * y


@pytest.fixture
def hindrances() -> Callable[[], set[str]]:
    """Return what tells why graphs that a test has compiled are not called straight."""
    before = {*straight.graphs}
    return lambda: {words for graph in {*straight.graphs} - before for words in graph.hindrances}


@pytest.mark.parametrize("emitter", ["python", "cpp", "fx"])
def test_the_second_call_is_straight(emitter: str, through_torch: list[Any]) -> None:
    compiled = ours(told, emitter, fullgraph=True)
    with torch.no_grad():
        for seed in range(4):
            x, y = pair(3, 4, seed=seed), torch.randn(4)
            torch.testing.assert_close(compiled(x, y), told(x, y))
    assert len(through_torch) == 1


def test_a_subclass_of_subclasses(through_torch: list[Any]) -> None:
    def deep(x: Any, y: Tensor) -> Any:
        twice = x * 2
        return twice.a.b + y, twice.b.a - y

    compiled = ours(deep, fullgraph=True)
    with torch.no_grad():
        for seed in range(3):
            x, y = TwoTensor(pair(3, seed=seed), pair(3, seed=7 + seed)), torch.randn(3)
            torch.testing.assert_close(compiled(x, y), deep(x, y))
    assert len(through_torch) == 1


def test_another_layout_or_type_is_compiled_anew(through_torch: list[Any]) -> None:
    compiled = ours(lambda x, y: x + y if isinstance(x, TwoTensor) else x - y)
    y = torch.randn(4)
    with torch.no_grad():
        for x in (pair(3, 4), pair(2, 4), torch.randn(3, 4), pair(3, 4), torch.randn(3, 4)):
            found = compiled(x, y)
            expected = x + y if isinstance(x, TwoTensor) else x - y
            for name in ("a", "b") if isinstance(x, TwoTensor) else ():
                torch.testing.assert_close(getattr(found, name), getattr(expected, name))
            if not isinstance(x, TwoTensor):
                torch.testing.assert_close(found, expected)
    assert through_torch


def test_a_caller_that_passes_something_else_gets_torchs_words() -> None:
    compiled = ours(told, fullgraph=True)
    calls: list[Any] = []

    def watching(graph: Any, entry: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        calls[:] = [graph, entry, args]
        return entry(*args)

    with torch.no_grad():
        for _ in range(2):
            compiled(pair(3), torch.randn(3))
        straight.watchers[get_ident()] = watching
        try:
            compiled(pair(3), torch.randn(3))
        finally:
            del straight.watchers[get_ident()]
        graph, entry, args = calls
        changed = [torch.randn(3) if isinstance(arg, TwoTensor) else arg for arg in args]
        with pytest.raises(Exception, match=r"expected.*TwoTensor"):
            entry(*changed)
        held = [TwoTensor(pair(3), pair(3)) if isinstance(a, TwoTensor) else a for a in args]
        assert taken_apart(graph.parts, held) is None
        entry(*args)


def test_arguments_that_are_written_to_count_as_written() -> None:
    def writes(x: Any, y: Tensor) -> Tensor:
        y.add_((x * 2).a)
        return y * 2

    compiled = ours(writes, fullgraph=True)
    x, y, other = pair(3), torch.zeros(3), torch.zeros(3)
    with torch.no_grad():
        for count in range(1, 5):
            torch.testing.assert_close(compiled(x, y), writes(x, other))
            torch.testing.assert_close(y, other)
            assert y._version == count


def test_overlapping_arguments_run_op_by_op() -> None:
    def writes(x: Tensor, y: Tensor, z: Tensor) -> Tensor:
        x.add_(1)
        return y * 2 + z

    compiled, base = ours(writes, fullgraph=True), torch.randn(8)
    with torch.no_grad():
        for _ in range(2):
            given = [torch.randn(4) for _ in range(3)]
            torch.testing.assert_close(compiled(*given), given[1] * 2 + given[2])
        z = torch.randn(4)
        with pytest.warns(UserWarning, match="shares memory"):
            found = compiled(base[:4], base[2:6], z)
        torch.testing.assert_close(found, base[2:6] * 2 + z)
        torch.testing.assert_close(compiled(z, base[:4], base[2:6]), base[:4] * 2 + base[2:6])


def test_what_goes_through_torch_says_why(hindrances: Callable[[], set[str]]) -> None:
    x = pair(3)
    twice = ours(lambda x: x * 2)
    for _ in range(3):
        assert torch.equal(twice(x).b, x.b * 2)
    assert hindrances() == {"results are tensor subclasses"}


def test_a_weight_beside_a_subclass_is_trained(through_torch: list[Any]) -> None:
    weight = torch.ones(3, requires_grad=True)
    weighted, x = ours(lambda x: (x * 2).a * weight), pair(3)
    for _ in range(4):
        found = weighted(x)
        found.sum().backward()
        assert torch.equal(found, x.a * 2)
    assert weight.grad is not None
    assert torch.equal(weight.grad, x.a * 8)
    assert len(through_torch) == 3  # once forward, and twice backward


@pytest.mark.usefixtures("own_group")
def test_distributed_tensors(through_torch: list[Any], hindrances: Callable[[], set[str]]) -> None:
    mesh = dist.init_device_mesh("cpu", (1,))
    weight: Any = distributed.distribute_tensor(torch.randn(4, 4), mesh, [distributed.Shard(0)])
    cache = torch.zeros(4)

    def step(x: Tensor) -> Tensor:
        y = (weight * 2).to_local() @ x
        cache.add_(y)
        return y + cache

    compiled = ours(step, fullgraph=True)
    total = torch.zeros(4)
    with torch.no_grad():
        for _ in range(4):
            x = torch.randn(4)
            expected = (weight.to_local() * 2) @ x
            total += expected
            torch.testing.assert_close(compiled(x), expected + total)
    assert len(through_torch) == 1
    assert not hindrances()


#: The scenes in which a node has to do with what its arguments are.
OFTEN = (
    twice_backward,
    graph_of_a_gradient,
    gradients_of_odd_kinds,
    one_result_used,
    what_a_node_shows,
    called_by_hand,
    hooks,
    hooks_of_saved_tensors,
    checkpointed,
    compiled_autograd,
    profiled,
)


def rare(value: Any) -> Any:
    return pytest.param(value, marks=pytest.mark.long)


def of_local(x: Tensor, weight: Any) -> Tensor:
    return product(x, weight.to_local())


def of_local_twice(x: Tensor, weight: Any) -> tuple[Tensor, Tensor]:
    return two_results(x, weight.to_local())


def of_rows(x: Tensor, weight: Any) -> Tensor:
    return (x @ weight.to_local()).sin() * 2


def of_shards(x: Tensor, weight: Any) -> Tensor:
    """The product of distributed tensors of several placements: the mesh is needed backward."""
    spread = distributed.DTensor.from_local(x, weight.device_mesh, run_check=False)
    y = (spread @ weight).redistribute(placements=[distributed.Replicate()])
    return y.to_local().sin() * 2


@pytest.mark.usefixtures("own_group", "few_objects")
@pytest.mark.parametrize("emitter", ["python", "cpp", "fx"])
@pytest.mark.parametrize("function", [of_rows, of_shards])
def test_distributed_weights_are_trained(
    function: Callable[..., Any],
    emitter: str,
    through_torch: list[Any],
    hindrances: Callable[[], set[str]],
) -> None:
    mesh = dist.init_device_mesh("cpu", (1,))

    def train(compiled: Callable[..., Any]) -> list[Any]:
        torch.manual_seed(0)
        placed = distributed.distribute_tensor(torch.randn(4, 4), mesh, [distributed.Shard(0)])
        weight = torch.nn.Parameter(placed)
        seen = []
        for rows in (4, 4, 4, 2, 2, 2, 3, 4):
            compiled(torch.randn(rows, 4), weight).square().sum().backward()
            seen.append((type(weight.grad).__name__, values(weight.grad)))
            with torch.no_grad():
                weight -= 0.1 * weight.grad
            weight.grad = None
        return seen

    wanted = train(torch.compile(function, fullgraph=True))
    torch._dynamo.reset()
    through_torch.clear()
    assert train(ours(function, emitter, fullgraph=True)) == wanted
    assert not hindrances()
    # Of both graphs, that of one size and that of all: once forward, and twice backward.
    assert len(through_torch) == 6


@pytest.mark.usefixtures("own_group", "few_objects")
@pytest.mark.filterwarnings("ignore:The .grad attribute")
@pytest.mark.parametrize("way", ["C++", rare("Python")], indirect=True)
@pytest.mark.parametrize(
    "scene",
    [pytest.param(each, marks=[] if each in OFTEN else pytest.mark.long) for each in SCENES],
)
def test_what_a_caller_sees_of_distributed_weights(scene: Callable[..., Any], way: str) -> None:
    mesh = dist.init_device_mesh("cpu", (1,))

    def made(values: Tensor) -> Tensor:
        return distributed.distribute_tensor(values, mesh, [distributed.Shard(0)]).detach()

    function = of_local_twice if scene is one_result_used else of_local
    wanted = play(scene, torch.compile(function), made)
    torch._dynamo.reset()
    emitter = "cpp" if way == "C++" else "python"
    check(scene, play(scene, ours(function, emitter), made), wanted, emitter)


@pytest.mark.parametrize("emitter", ["python", "cpp"])
@pytest.mark.filterwarnings("ignore")  # torchao warns of what it will do otherwise
def test_weights_that_torchao_has_made_are_taken_apart(
    emitter: str, hindrances: Callable[[], set[str]], through_torch: list[Any]
) -> None:
    quantization = pytest.importorskip("torchao.quantization")
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU()).eval()
    config = quantization.Int8DynamicActivationInt8WeightConfig(set_inductor_config=False)
    quantization.quantize_(model, config)
    inputs = [torch.randn(rows, 64) for rows in (4, 4, 7, 7)]
    with torch.no_grad():
        stock = torch.compile(model)
        wanted = [stock(x) for x in inputs]
        torch._dynamo.reset()
        compiled = ours(model, emitter=emitter)
        found = [compiled(x) for x in inputs]
        assert all(map(torch.equal, found, wanted))
        before = len(through_torch)
        compiled(inputs[0])
    assert len(through_torch) == before
    assert hindrances() == set()
