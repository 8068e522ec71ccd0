"""Weights that are tensor subclasses: programs and packages take what they hold, by their names."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.export import Dim
from torch.testing._internal.two_tensor import TwoTensor

import wrapper_ir as wir

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

EMITTERS = ("python", "cpp", "fx")


def pair(*shape: int) -> TwoTensor:
    return TwoTensor(torch.randn(shape), torch.randn(shape))


class Pairs(nn.Module):
    """Weights that hold two tensors each; one is of pairs of pairs, a buffer counts calls."""

    steps: Any

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Module()
        self.inner.scale = nn.Parameter(pair(8))
        self.nested = nn.Parameter(TwoTensor(pair(8), pair(8)))
        self.register_buffer("steps", TwoTensor(torch.zeros(8), torch.ones(8)))
        self.plain = nn.Linear(8, 8)
        self.idle = nn.Parameter(pair(2))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        self.steps.add_(1)
        y: Any = self.plain(x) * self.inner.scale + self.nested + self.steps
        z = y.b if isinstance(y.b, Tensor) and not isinstance(y.b, TwoTensor) else y.b.a
        return y.a.a if isinstance(y.a, TwoTensor) else y.a, z


NAMES = {
    "plain.weight",
    "plain.bias",
    "inner.scale.a",
    "inner.scale.b",
    *("nested.a.a", "nested.a.b", "nested.b.a", "nested.b.b"),
    *("steps.a", "steps.b", "idle.a", "idle.b"),
}


def named(program: wir.Program) -> set[str]:
    """Return the names of the model's tensors in a program, and of those that it does not need."""
    return {each.qualified_name for each in program.constants.values()} | {*program.unread}


@pytest.mark.parametrize("target", EMITTERS)
def test_parts_go_by_the_names_of_the_model(target: str) -> None:
    torch.manual_seed(0)
    model, x = Pairs().eval(), torch.randn(4, 8)
    with torch.no_grad():
        program = wir.capture(model, (x,), dynamic_shapes=({0: Dim.AUTO},))
        assert named(program) == NAMES
        kinds = {each.qualified_name: each.kind.value for each in program.constants.values()}
        assert kinds["inner.scale.a"] == "parameter"
        assert kinds["steps.b"] == "buffer"

        call = wir.compile(program, target)
        for rows in (4, 4, 7):
            x = torch.randn(rows, 8)
            steps = model.steps.clone()
            expected = model(x)
            model.steps.copy_(steps)
            torch.testing.assert_close(tuple(call(x)), expected, rtol=0, atol=0)
            assert torch.equal(model.steps.b, steps.b + 1)  # it is the model's own memory
            model.inner.scale.mul_(2)


def test_a_package_takes_a_state_dict_of_subclasses(tmp_path: Path) -> None:
    torch.manual_seed(0)
    first, second, x = Pairs().eval(), Pairs().eval(), torch.randn(4, 8)
    with torch.no_grad():
        wir.export(wir.capture(first, (x,)), tmp_path / "bare.pt2", constants="none")
        expected = [copy.deepcopy(each)(x) for each in (first, second)]
        loaded = wir.load_package(tmp_path / "bare.pt2", weights=first.state_dict())
        torch.testing.assert_close(loaded(x), expected[0], rtol=0, atol=0)
        assert torch.equal(first.steps.a, torch.ones(8))  # used in place
        loaded.load_constants(second.state_dict(), check_full_update=True)
        torch.testing.assert_close(loaded(x), expected[1], rtol=0, atol=0)
        state = {**second.state_dict(), "inner.scale.a": torch.ones(8)}
        del state["inner.scale"]
        with pytest.raises(wir.WrapperIRError, match=r"lack.*'inner\.scale\.b'"):
            wir.load_package(tmp_path / "bare.pt2", weights=state)


@pytest.fixture
def alone() -> Iterator[None]:
    """A group of two ranks, the other of which does not exist."""
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    yield
    dist.destroy_process_group()


def one_mesh() -> Any:
    from torch.distributed.device_mesh import init_device_mesh

    return init_device_mesh("cpu", (2,))


def spread(seed: int) -> nn.Module:
    from torch.distributed.tensor import parallel

    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8)).eval()
    plan: Any = {"0": parallel.ColwiseParallel(), "2": parallel.RowwiseParallel()}
    return parallel.parallelize_module(model, one_mesh(), plan)


@pytest.mark.skipif(not dist.is_available(), reason="this torch has no process groups")
@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("freeze", [False, True])
def test_a_distributed_weight_keeps_its_name(freeze: bool, tmp_path: Path) -> None:
    first, second, x = spread(0), spread(1), torch.randn(4, 8)
    with torch.no_grad():
        program = wir.capture(first, (x,), freeze=freeze)
        assert "parametrizations" not in str(program)
        if freeze:
            return
        assert named(program) == {"0.weight", "0.bias", "2.weight", "2.bias"}
        wir.export(program, tmp_path / "split.pt2")
        loaded = wir.load_package(tmp_path / "split.pt2", weights=second.state_dict())
        torch.testing.assert_close(loaded(x), second(x), rtol=0, atol=0)
        some = {"2.weight": first.state_dict()["2.weight"]}
        loaded = wir.load_package(tmp_path / "split.pt2", weights=some, partial=True)
        torch.testing.assert_close(loaded(x), first(x), rtol=0, atol=0)


class Scaled(nn.Module):
    """Looks up in a table that is split by rows, and scales by an attribute."""

    def __init__(self) -> None:
        from torch.distributed import tensor
        from torch.distributed.tensor import parallel

        super().__init__()
        self.mesh, self.words = one_mesh(), nn.Embedding(7, 8)
        style = parallel.RowwiseParallel(input_layouts=tensor.Replicate())
        parallel.parallelize_module(self.words, self.mesh, style)
        self.scale = tensor.DTensor.from_local(torch.randn(8), self.mesh, [tensor.Shard(0)])

    def forward(self, x: Tensor) -> Tensor:
        from torch.distributed import tensor

        found: Any = tensor.DTensor.from_local(self.words(x), self.mesh, [tensor.Shard(1)])
        scaled: Tensor = (found * self.scale).to_local()
        return scaled


@pytest.mark.skipif(not dist.is_available(), reason="this torch has no process groups")
@pytest.mark.usefixtures("alone")
def test_tables_by_rows_and_plain_attributes_are_traced() -> None:
    torch.manual_seed(0)
    model = Scaled().eval()
    scale, indices = model.scale, torch.tensor([0, 6, 3, 4, 3])
    with torch.no_grad():
        program = wir.capture(model, (indices,), dynamic_shapes=({0: Dim.AUTO},))
        assert named(program) == {"words.weight", "scale"}
        assert vars(model)["scale"] is scale
        assert "forward" not in vars(model)

        compiled, jitted = wir.compile(program), wir.jit(model, training=False, fallback=False)
        for _ in range(2):
            for given in indices, indices, indices[:3]:
                expected = model(given)
                torch.testing.assert_close(jitted(given), expected, rtol=0, atol=0)
                torch.testing.assert_close(compiled(given)[0], expected, rtol=0, atol=0)
            model.scale.mul_(2)
            model.words.weight.mul_(3)
        model.scale = model.scale * 2
        torch.testing.assert_close(jitted(indices), model(indices), rtol=0, atol=0)
